#version 310 es
#extension GL_GOOGLE_include_directive : require

// Bytes in row-major order, sixteen to a texel -> a tensor: the real numbers of a quantized one,
// the bytes themselves of another.
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

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC v = OUT_VEC(0);
  for (int lane = 0; lane < 4; ++lane) {
    int element = pixel * CHANNELS + min(4 * slice + lane, CHANNELS - 1);
    int word = LOAD(X, element / 16)[element / 4 % 4];
    int byte = word >> (element % 4 * 8) & 0xff;
#if SIGNED
    byte = byte << 24 >> 24;
#endif
#ifdef SCALE
    v[lane] = float(byte - ZERO_POINT) * SCALE;
#else
    v[lane] = byte;
#endif
  }
  store(slice, pixel, v);
}
