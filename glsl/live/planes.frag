#version 310 es

// The planes Y and UV, or Y, U and V, of a video frame as a picture.
#ifndef ASSEMBLED
precision highp float;
#define PLANES 3  // 2: the second plane has U and V
#endif
uniform sampler2D picture, plane1;
#if PLANES > 2
uniform sampler2D plane2;
#endif
uniform vec4 red, green, blue;  // the shares of Y, U, V and 1 in each color
uniform vec2 siting;  // from a pixel to its chroma
in vec2 uv;
out vec4 color;

void main() {
  vec4 yuv = vec4(texture(picture, uv).x, texture(plane1, uv + siting).xy, 1.0);
#if PLANES > 2
  yuv.z = texture(plane2, uv + siting).x;
#endif
  color = vec4(dot(red, yuv), dot(green, yuv), dot(blue, yuv), 1.0);
}
