#version 310 es
#extension GL_GOOGLE_include_directive : require

// A tensor -> bytes in row-major order, sixteen to a texel: the inverse of unpack_bytes.glsl.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define VEC0 ivec4
#define ELEMENT0 ivec4
#define CHANNELS 7  // channels of the tensor
#define PIXELS 60  // pixels of the tensor
#define SIGNED 0  // 1: int8; 0: uint8 or bool
#undef SCALE  // of a quantized tensor, which stands for SCALE * (byte - ZERO_POINT)
#undef ZERO_POINT
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(X)

int byte_of(int element) {
  if (element >= PIXELS * CHANNELS) return 0;
#ifdef SCALE
  float real = LOAD_ELEMENT(X, element, CHANNELS, PIXELS);
  int byte = int(floor(real / SCALE + 0.5)) + ZERO_POINT;
#else
  int byte = LOAD_ELEMENT(X, element, CHANNELS, PIXELS);
#endif
#if SIGNED
  return clamp(byte, -128, 127) & 0xff;
#else
  return clamp(byte, 0, 255);
#endif
}

void main() {
  int texel = PIXEL_INVOCATION;
  if (texel >= OUT_PIXELS) return;
  ivec4 words = ivec4(0);
  for (int i = 0; i < 16; ++i) words[i / 4] |= byte_of(16 * texel + i) << (i % 4 * 8);
  store(0, texel, words);
}
