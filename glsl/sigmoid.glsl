#version 310 es
#extension GL_GOOGLE_include_directive : require

// LOGISTIC or TANH of int16 steps, from TABLE: 2^16 times the logistic function at multiples of 1/24.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define STEP 0.0002  // a step of X
#define FACTOR 20132  // and how many thirds of 2^-12 it is, times 2^SHIFT
#define SHIFT 13
#define IS_TANH 0
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(TABLE)

#if IS_TANH
#define FRACTION 8  // bits between two entries
#define SATURATED (0xffff << 8)
#define RESULT_SHIFT 8
#else
#define FRACTION 9
#define SATURATED (0x7fff << 10)
#define RESULT_SHIFT 10
#endif

int sigmoid(int x) {
#if SHIFT > 0
  x = (x * FACTOR + (1 << (SHIFT - 1))) >> SHIFT;
#else
  x *= FACTOR;
#endif
  int size = abs(x), at = size >> FRACTION, next = at + 1, v = SATURATED;
  if (at < 255) {
    int low = LOAD(TABLE, at / 4)[at % 4], high = LOAD(TABLE, next / 4)[next % 4];
    v = (low << FRACTION) + (size & ((1 << FRACTION) - 1)) * (high - low);
  }
#if IS_TANH
  v = x >= 0 ? v - (1 << 23) + 128 : (1 << 23) - v + 127;
#else
  v = x >= 0 ? v + 512 : (1 << 25) - v + 511;
#endif
  return v >> RESULT_SHIFT;
}

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  ivec4 v = ivec4(nearest(LOAD(X, slice * OUT_PIXELS + pixel) / STEP));
  for (int i = 0; i < 4; ++i) v[i] = sigmoid(v[i]);
  store(slice, pixel, vec4(v) / 32768.0);
}
