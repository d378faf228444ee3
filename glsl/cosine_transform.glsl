#version 310 es
#extension GL_GOOGLE_include_directive : require

// The first coefficients of a cosine transform (of type II) of each pixel's channels.
// TABLE: the cosine of each of 4 * BANDS angles, which make a turn.
#ifndef ASSEMBLED
#define BANDS 40  // channels of X
#define NORM 0.22360679  // a factor
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(TABLE)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  vec4 sum = vec4(0.0);
  for (int band = 0; band < BANDS; ++band) {
    float x = LOAD(X, band / 4 * OUT_PIXELS + pixel)[band % 4];
    ivec4 angle = (4 * slice + ivec4(0, 1, 2, 3)) * (2 * band + 1) % (4 * BANDS);
    for (int i = 0; i < 4; ++i) sum[i] += x * LOAD(TABLE, angle[i]).x;
  }
  store(slice, pixel, NORM * sum);
}
