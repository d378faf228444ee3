#version 310 es
#extension GL_GOOGLE_include_directive : require

// The pixels of textures -> a tensor [1, height, OUT_W, 1 to 4 channels], or [1, channels, OUT_H,
// columns] if PLANAR, as ImageTransform describes it: from one texture of colors, from two (NV12)
// or three (I420) planes, or from one texture of pairs of pixels.
//
// TRANSFORM holds the rows of the matrix from positions in the tensor to positions in the picture,
// the first with the padding as its fourth number; then the gains and biases of the channels, and the
// picture's width and height. The matrix may be of another network's making, and then anything.
// Colors are 0 to 1, so that the floats of a texture pass unchanged, or 0 to 255 if OPENCV, which
// rounds them to integers.
#ifndef ASSEMBLED
#define PLANAR 0  // 1: channels are in front of rows and columns
#define OUT_W 6  // columns of the tensor
#define OUT_H 10  // rows of the tensor, if PLANAR
#define PLANES 1  // textures
#define MONOCHROME 0  // 1: the only texture has one channel
#define EXTERNAL 0  // 1: the only texture is an external one
#define SRGB 0  // 1: textures are sRGB, which the driver decodes; networks see what is stored
#define GRAY 0  // 1: the tensor's channels are the luma of the colors
#define ORDER rgba  // otherwise: the order of the colors in them
#define ANTIALIAS 0  // 1: a tensor pixel is the mean of several colors
#define MOST_SAMPLES 16  // of these along its width or height
#define OPENCV 0  // 1: sample as OpenCV's warpPerspective
#define FADING 1  // 1: its edge fades into the padding
#define EDGE 1e-3  // pixels that are rounding
#define REACH 1e-3  // pixels by which a position may miss the picture
#define BLACK 16.0  // Y' of black, in 255ths
#define LUMA_RANGE 219.0  // from there to white
#define CHROMA_RANGE 224.0  // the range of U and V
#define SITING 0.25  // how far chroma samples lie to the left of their pixels' center
#undef BYTE_Y0  // of a pair of pixels, in one texel: the channels of both Y, of U and of V
#undef BYTE_Y1
#undef BYTE_U
#undef BYTE_V
#define LUMA_RED 0.299  // red's share of Y'
#define LUMA_BLUE 0.114  // blue's share of Y'
#undef LOWEST  // the range of an 8-bit tensor's integers
#undef HIGHEST
#undef SCALE  // of a quantized tensor, which stands for SCALE * (integer - ZERO_POINT)
#undef ZERO_POINT
#endif
#include "lib/tensor.glsl"

#if EXTERNAL
#define SAMPLER highp samplerExternalOES
#else
#define SAMPLER highp sampler2D
#endif

INPUT0(TRANSFORM)
layout(binding = 0) uniform SAMPLER PLANE0;
#if PLANES > 1
layout(binding = 1) uniform highp sampler2D PLANE1;
#endif
#if PLANES > 2
layout(binding = 2) uniform highp sampler2D PLANE2;
#endif

#if EXTERNAL  // Mesa returns a height of 0
#define SIZE_OF(plane) ivec2(LOAD(TRANSFORM, 4).xy)
#else
#define SIZE_OF(plane) textureSize(plane, 0)
#endif
#ifdef BYTE_Y0
#define IN_YUV 1
#define PICTURE_SIZE (SIZE_OF(PLANE0) * ivec2(2, 1))
#else
#define IN_YUV (PLANES > 1)
#define PICTURE_SIZE SIZE_OF(PLANE0)
#endif

#if SRGB
vec4 fetched(SAMPLER plane, ivec2 at) {
  vec4 c = texelFetch(plane, at, 0);
  vec3 dark = 12.92 * c.rgb, light = 1.055 * pow(c.rgb, vec3(1.0 / 2.4)) - 0.055;
  vec3 stored = mix(light, dark, lessThanEqual(c.rgb, vec3(0.0031308)));
  return vec4(floor(stored * 255.0 + 0.5) / 255.0, c.a);  // drivers decode roughly
}
#else
#define fetched(plane, at) texelFetch(plane, at, 0)
#endif

// Between the four nearest texels; a chroma plane has one texel for 2x2 or 2x1 of the picture.
vec4 bilinear(SAMPLER plane, vec2 at) {
  ivec2 size = SIZE_OF(plane), step = (PICTURE_SIZE + size - 1) / size;
  at = at / vec2(step) - 0.5;
#if IN_YUV
  if (step.x > 1) at.x += SITING;
#endif
  ivec2 corner = ivec2(floor(at)), last = size - 1;
  vec2 weight = at - floor(at);
  ivec2 low = clamp(corner, ivec2(0), last), high = clamp(corner + 1, ivec2(0), last);
  vec4 top = mix(fetched(plane, low), fetched(plane, ivec2(high.x, low.y)), weight.x);
  vec4 bottom = mix(fetched(plane, ivec2(low.x, high.y)), fetched(plane, high), weight.x);
  return mix(top, bottom, weight.y);
}

#ifdef BYTE_Y0
float luma_at(int x, int y) {
  vec4 pair = fetched(PLANE0, ivec2(x >> 1, y));
  return (x & 1) == 0 ? pair[BYTE_Y0] : pair[BYTE_Y1];
}

float luma(vec2 at) {
  at -= 0.5;
  ivec2 corner = ivec2(floor(at)), last = PICTURE_SIZE - 1;
  vec2 weight = at - floor(at);
  ivec2 low = clamp(corner, ivec2(0), last), high = clamp(corner + 1, ivec2(0), last);
  float top = mix(luma_at(low.x, low.y), luma_at(high.x, low.y), weight.x);
  float bottom = mix(luma_at(low.x, high.y), luma_at(high.x, high.y), weight.x);
  return mix(top, bottom, weight.y);
}
#endif

// Red, green, blue and alpha.
vec4 colours(vec2 at) {
  vec4 c = bilinear(PLANE0, at);
#if IN_YUV
#ifdef BYTE_Y0
  vec3 yuv = vec3(luma(at), c[BYTE_U], c[BYTE_V]);
#else
  vec3 yuv = vec3(c.x, bilinear(PLANE1, at).xy);
#endif
#if PLANES > 2
  yuv.z = bilinear(PLANE2, at).x;
#endif
  yuv = (yuv * 255.0 - vec3(BLACK, 128.0, 128.0)) / vec3(LUMA_RANGE, CHROMA_RANGE, CHROMA_RANGE);
  float red = yuv.x + 2.0 * (1.0 - LUMA_RED) * yuv.z;
  float blue = yuv.x + 2.0 * (1.0 - LUMA_BLUE) * yuv.y;
  float green = (yuv.x - LUMA_RED * red - LUMA_BLUE * blue) / (1.0 - LUMA_RED - LUMA_BLUE);
  c = vec4(clamp(vec3(red, green, blue), 0.0, 1.0), 1.0);
#elif MONOCHROME
  c.gb = c.rr;
#endif
#if OPENCV
  c *= 255.0;
#endif
  return c;
}

// The color's channels at a position in the tensor.
vec4 channels(vec2 position, vec4 row0, vec4 row1) {
  vec2 at = vec2(dot(row0.xyz, vec3(position, 1.0)), dot(row1.xyz, vec3(position, 1.0)));
  vec2 size = vec2(PICTURE_SIZE);
#if OPENCV
  at = roundEven(at * 32.0) / 32.0;
#endif
  bool inside =
      all(greaterThanEqual(at, vec2(-REACH))) && all(lessThanEqual(at, vec2(size + REACH)));
  if (!inside) return vec4(row0.w);  // NaN is outside, too
  vec4 v = colours(at).ORDER;
#if GRAY
  v = vec4(dot(v.rgb, vec3(0.299, 0.587, 0.114)));
#endif
#if OPENCV && FADING
  vec2 share = clamp(min(at + 0.5, size + 0.5 - at), 0.0, 1.0);
  v = mix(vec4(row0.w), v, share.x * share.y);
#endif
#if OPENCV
  v = floor(v + 0.5 + 1.0 / 2048.0);
#endif
  return v;
}

#if ANTIALIAS
// How many colors are needed along a tensor pixel's side, by the vector from one to the next.
int samples(vec2 side) {
  float count = ceil(length(side) - EDGE);
  return count <= float(MOST_SAMPLES) ? max(int(count), 1) : MOST_SAMPLES;
}
#endif

// The tensor's numbers for the channels of a pixel whose top left corner is there.
vec4 numbers(vec2 corner) {
  vec4 row0 = LOAD(TRANSFORM, 0), row1 = LOAD(TRANSFORM, 1);
#if ANTIALIAS
  int along = samples(vec2(row0.x, row1.x)), across = samples(vec2(row0.y, row1.y));
  vec4 v = vec4(0.0);
  for (int j = 0; j < across; j++) {
    for (int i = 0; i < along; i++) {
      vec2 inner = (vec2(i, j) + 0.5) / vec2(along, across);
      v += channels(corner + inner, row0, row1);
    }
  }
  v /= float(along * across);
#elif OPENCV
  vec4 v = channels(corner, row0, row1);
#else
  vec4 v = channels(corner + 0.5, row0, row1);
#endif
  v = v * LOAD(TRANSFORM, 2) + LOAD(TRANSFORM, 3);
#ifdef LOWEST
  v = clamp(floor(v + 0.5), float(LOWEST), float(HIGHEST));
#endif
#ifdef SCALE
  v = (v - float(ZERO_POINT)) * SCALE;
#endif
  return v;
}

void main() {
  int pixel = PIXEL_INVOCATION;
  if (pixel >= OUT_PIXELS) return;
#if PLANAR
  int slice = SLICE_INVOCATION;
  if (slice >= OUT_SLICES) return;
  vec4 v = vec4(0.0);
  for (int i = 0; i < 4; i++) {  // store() leaves out what is past the last column
    v[i] = numbers(vec2(4 * slice + i, pixel % OUT_H))[pixel / OUT_H];
  }
  store(slice, pixel, OUT_VEC(v));
#else
  store(0, pixel, OUT_VEC(numbers(vec2(pixel % OUT_W, pixel / OUT_W))));
#endif
}
