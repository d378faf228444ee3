#version 310 es
#extension GL_GOOGLE_include_directive : require

// BUCKETIZE: how many boundaries of TABLE each element of X has reached.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define BOUNDARIES 5
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(TABLE)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  vec4 x = vec4(LOAD(X, slice * OUT_PIXELS + pixel));
  ivec4 v = ivec4(0);
  // No comparison is true of NaN.
  for (int i = 0; i < BOUNDARIES; ++i) v += 1 - ivec4(lessThan(x, vec4(LOAD(TABLE, i / 4)[i % 4])));
  store(slice, pixel, v);
}
