#version 310 es

// A triangle of which the viewport is a part; `uv` is 0 to 1 from the framebuffer's first row.
out vec2 uv;

void main() {
  uv = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0;
  gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
