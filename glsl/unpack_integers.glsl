#version 310 es
#extension GL_GOOGLE_include_directive : require

// Integers of another size than a lane's in row-major order, 128 bits to a texel -> a tensor: the
// real numbers of a quantized one, the integers themselves of another. Of 64 bits the lower 32 count.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define VEC0 ivec4
#define ELEMENT0 ivec4
#define CHANNELS 7  // channels of the tensor
#define PIXELS 60  // pixels of the tensor
#define BITS 8  // of an integer: 8, 16 or 64
#define SIGNED 0  // 1: int8, int16 or int64; 0: uint8 or bool
#undef SCALE  // of a quantized tensor, which stands for SCALE * (integer - ZERO_POINT)
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
#if BITS < 32
    const int COUNT = 32 / BITS;
    int word = LOAD(X, element / (4 * COUNT))[element / COUNT % 4];
    int integer = word << 32 - BITS - element % COUNT * BITS;
#if SIGNED
    integer = integer >> 32 - BITS;
#else
    integer = integer >> 32 - BITS & (1 << BITS) - 1;
#endif
#else
    int integer = LOAD(X, element / 2)[element % 2 * 2];
#endif
#ifdef SCALE
    v[lane] = float(integer - ZERO_POINT) * SCALE;
#else
    v[lane] = integer;
#endif
  }
  store(slice, pixel, v);
}
