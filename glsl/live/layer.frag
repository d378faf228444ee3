#version 310 es

// A layer over a picture; gles_apps/live/layers.py describes it.
#ifndef ASSEMBLED
precision highp float;
#define SMOOTH 1  // 1: enlarge by a cubic B-spline
#define TINT 1  // 1: keep the picture's brightness
#define MASK 1  // 1: the layer's red says where another color goes
#define BACKDROP 1  // 1: that color is another picture's
#define CONTOUR 1  // 1: a line around the layer
#define LUMA vec3(0.2, 0.7, 0.1)  // the shares of red, green and blue in a brightness
#endif
uniform sampler2D picture, layer;
uniform mat3x2 to_layer;  // from pixels of the picture to pixels of the layer
uniform vec2 size;  // of the picture
uniform vec2 edges;  // of the coverage
uniform float opacity;
uniform bool inverted;
#if CONTOUR
uniform float line;  // half of its width, in pixels
#endif
#if BACKDROP
uniform sampler2D backdrop;
#else
uniform vec3 fill;
#endif
in vec2 uv;
out vec4 color;

#if SMOOTH
// Cubic B-spline by four bilinear samples: Sigg and Hadwiger, GPU Gems 2 (2005), chapter 20.
vec4 sampled(vec2 at, vec2 extent) {
  vec2 base = floor(at - 0.5) + 0.5, f = at - base, g = 1.0 - f;
  vec2 w0 = g * g * g / 6.0, w3 = f * f * f / 6.0;
  vec2 w1 = (4.0 - 6.0 * f * f + 3.0 * f * f * f) / 6.0, w2 = 1.0 - w0 - w1 - w3;
  vec2 low = w0 + w1, high = w2 + w3;
  vec2 from = (base - 1.0 + w1 / low) / extent, to = (base + 1.0 + w3 / high) / extent;
  return low.y * (low.x * texture(layer, from) + high.x * texture(layer, vec2(to.x, from.y))) +
         high.y * (low.x * texture(layer, vec2(from.x, to.y)) + high.x * texture(layer, to));
}
#else
vec4 sampled(vec2 at, vec2 extent) { return texture(layer, at / extent); }
#endif

void main() {
  vec3 below = texelFetch(picture, ivec2(gl_FragCoord.xy), 0).rgb;
  vec2 extent = vec2(textureSize(layer, 0));
  // A block of 2 x 2 pixels, which derivatives compare, may reach over the edge.
  vec2 at = to_layer * vec3(min(uv * size, size - 0.5), 1.0);
  bool inside = all(greaterThanEqual(at, vec2(0.0))) && all(lessThanEqual(at, extent));
  vec4 above = inside ? sampled(at, extent) : vec4(0.0);
#if MASK
  float coverage = above.r;
#if BACKDROP
  vec3 over = texelFetch(backdrop, ivec2(gl_FragCoord.xy), 0).rgb;
#else
  vec3 over = fill;
#endif
#else
  float coverage = above.a;
  vec3 over = above.rgb / max(coverage, 1e-3);
#endif
#if TINT
  over = clamp(over * (dot(below, LUMA) / max(dot(over, LUMA), 0.05)), 0.0, 1.0);
#endif
  float share = edges.y > edges.x ? smoothstep(edges.x, edges.y, coverage) : coverage;
  share = opacity * (inverted ? 1.0 - share : share);
#if CONTOUR
  // The distance to the line, in pixels, by the slope.
  float slope = length(vec2(dFdx(coverage), dFdy(coverage)));
  share = max(share, clamp(line + 0.5 - abs(coverage - 0.5) / max(slope, 1e-4), 0.0, 1.0));
#endif
  color = vec4(mix(below, over, share), 1.0);
}
