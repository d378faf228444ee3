#version 310 es

// A picture as it is, or upside down.
#ifndef ASSEMBLED
precision highp float;
#endif
uniform sampler2D picture;
uniform bool flipped;
in vec2 uv;
out vec4 color;

void main() { color = vec4(texture(picture, flipped ? vec2(uv.x, 1.0 - uv.y) : uv).rgb, 1.0); }
