#version 310 es
#extension GL_GOOGLE_include_directive : require

// SVDF: each unit's sum over its RANK filters and over time of STATE * WEIGHTS. A row of STATE has
// the features of one filter in time, for each of the batch; a row of WEIGHTS is one filter.
#ifndef ASSEMBLED
#define RANK 2
#define FILTERS 14  // of all units
#define ROWS 28  // rows of the whole batch
#define MEMORY_SLICES 3  // of a row
#endif
#include "lib/tensor.glsl"

INPUT0(STATE)
INPUT1(WEIGHTS)

void main() {
  int batch = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (batch >= OUT_PIXELS || slice >= OUT_SLICES) return;
  vec4 sums = vec4(0.0);
  for (int lane = 0; lane < 4; ++lane) {
    int first = min(4 * slice + lane, OUT_CHANNELS - 1) * RANK;
    for (int number = first; number < first + RANK; ++number)
      for (int k = 0; k < MEMORY_SLICES; ++k) {
        vec4 row = LOAD(STATE, k * ROWS + batch * FILTERS + number);
        sums[lane] += dot(row, LOAD(WEIGHTS, k * FILTERS + number));
      }
  }
  store(slice, batch, sums);
}
