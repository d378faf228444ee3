#version 310 es

// A picture filtered by the weights 1, 4, 6, 4, 1 along both axes, by nine bilinear samples.
#ifndef ASSEMBLED
precision highp float;
#endif
uniform sampler2D picture;
in vec2 uv;
out vec4 color;

vec4 row(vec2 at, vec2 side) {
  vec4 sides = texture(picture, at - side) + texture(picture, at + side);
  return (5.0 * sides + 6.0 * texture(picture, at)) / 16.0;
}

void main() {
  // Between the second and the third texel, in the proportion 4 to 1.
  vec2 reach = 1.2 / vec2(textureSize(picture, 0)), side = vec2(reach.x, 0.0);
  vec2 down = vec2(0.0, reach.y);
  color = (5.0 * (row(uv - down, side) + row(uv + down, side)) + 6.0 * row(uv, side)) / 16.0;
}
