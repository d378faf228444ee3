#version 310 es
#extension GL_GOOGLE_include_directive : require

// A function of int16 steps, from entries of TABLE that are 128 steps apart: LiteRT's `LUTLookup`.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define STEP 0.001  // a step of X
#define RESULT_STEP 0.002
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(TABLE)

// What int16 keeps.
int wrapped(int v) { return (v << 16) >> 16; }

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  ivec4 v = ivec4(nearest(LOAD(X, slice * OUT_PIXELS + pixel) / STEP));
  for (int i = 0; i < 4; ++i) {
    int at = 256 + (v[i] >> 7), next = at + 1;
    int low = LOAD(TABLE, at / 4)[at % 4], high = LOAD(TABLE, next / 4)[next % 4];
    v[i] = wrapped(low + ((wrapped(high - low) * (v[i] & 127) + 64) >> 7));
  }
  store(slice, pixel, vec4(v) * RESULT_STEP);
}
