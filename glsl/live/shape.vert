#version 310 es

// The rectangle of pixels that an item of a drawing covers; shape.frag says how much of each.
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
  float margin = radius < 0.0 ? 0.0 : radius + 1.0;
  position = mix(low - margin, high + margin, corner);
  glyph = letter.z > letter.x ? mix(letter.xy, letter.zw, corner) : vec2(-1.0);
  line = ends;
  reach = radius;
  paint = tint;
  gl_Position = vec4(position / size * 2.0 - 1.0, 0.0, 1.0);
}
