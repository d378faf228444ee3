#version 310 es

// The rectangle, along a line, that an item of a drawing covers; shape.frag says how much of each
// pixel.
in vec4 ends;  // of a line, or corners of a rectangle
in float radius;  // of a line; below 0: a rectangle
in vec4 tint;
in vec4 letter;  // its corners in the atlas, in pixels; a plain rectangle has none
uniform vec2 size;
flat out vec4 line;
flat out float reach;
flat out vec4 paint;
out vec2 position, glyph;

void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 low = min(ends.xy, ends.zw), high = max(ends.xy, ends.zw);
  position = mix(low, high, corner);
  if (radius >= 0.0) {
    vec2 along = ends.zw - ends.xy;
    float extent = length(along), margin = radius + 1.0;
    along = extent > 0.0 ? along / extent : vec2(1.0, 0.0);
    vec2 from = mix(vec2(-margin), vec2(extent + margin, margin), corner);
    position = ends.xy + from.x * along + from.y * vec2(-along.y, along.x);
  }
  glyph = letter.z > letter.x ? mix(letter.xy, letter.zw, corner) : vec2(-1.0);
  line = ends;
  reach = radius;
  paint = tint;
  gl_Position = vec4(position / size * 2.0 - 1.0, 0.0, 1.0);
}
