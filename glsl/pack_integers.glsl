#version 310 es
#extension GL_GOOGLE_include_directive : require

// A tensor -> integers of another size in row-major order, 128 bits to a texel: the inverse of
// unpack_integers.glsl.
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
#include "lib/index.glsl"

INPUT0(X)

int integer_of(int element) {
  if (element >= PIXELS * CHANNELS) return 0;
#ifdef SCALE
  float real = LOAD_ELEMENT(X, element, CHANNELS, PIXELS);
  return int(floor(real / SCALE + 0.5)) + ZERO_POINT;
#else
  return LOAD_ELEMENT(X, element, CHANNELS, PIXELS);
#endif
}

#if BITS < 32
// The lowest BITS of the nearest integer that has no more.
int bits_of(int integer) {
#if SIGNED
  return clamp(integer, -1 << BITS - 1, (1 << BITS - 1) - 1) & (1 << BITS) - 1;
#else
  return clamp(integer, 0, (1 << BITS) - 1);
#endif
}
#endif

void main() {
  int texel = PIXEL_INVOCATION;
  if (texel >= OUT_PIXELS) return;
  ivec4 words = ivec4(0);
#if BITS < 32
  const int COUNT = 32 / BITS;
  for (int i = 0; i < 4 * COUNT; ++i) {
    words[i / COUNT] |= bits_of(integer_of(4 * COUNT * texel + i)) << i % COUNT * BITS;
  }
#else
  int low = integer_of(2 * texel), high = integer_of(2 * texel + 1);
  words = ivec4(low, low >> 31, high, high >> 31);
#endif
  store(0, texel, words);
}
