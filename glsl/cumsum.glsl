#version 310 es
#extension GL_GOOGLE_include_directive : require

// CUMSUM over the channels or over LENGTH pixels: the sum of all elements before this one and,
// unless EXCLUSIVE, itself. An invocation computes one line, or one slice of it.
#ifndef ASSEMBLED
#define EXCLUSIVE 0  // 1: without the element itself
#define REVERSE 0  // 1: counted from the end
#define OVER_CHANNELS 0  // 1: over the channels; 0: over pixels
#define LENGTH 5  // elements of a line
#define STRIDE 6  // from one pixel of a line to the next, given if not OVER_CHANNELS
#define LINES 12  // lines of one slice
#define LINE_SLICES 2  // slices of the lines
#endif
#include "lib/tensor.glsl"

INPUT0(X)

void main() {
  int line = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (line >= LINES || slice >= LINE_SLICES) return;
  OUT_VEC sum = OUT_VEC(0);
#if OVER_CHANNELS
  for (int i = 0; i < OUT_SLICES; ++i) {
    int s = REVERSE == 1 ? OUT_SLICES - 1 - i : i;
    OUT_VEC v = LOAD(X, s * OUT_PIXELS + line), sums;
    for (int j = 0; j < 4; ++j) {
      int lane = REVERSE == 1 ? 3 - j : j;
      sums[lane] = EXCLUSIVE == 1 ? sum.x : sum.x + v[lane];
      sum.x += v[lane];
    }
    store(s, line, sums);
  }
#else
  int start = line / STRIDE * (STRIDE * LENGTH) + line % STRIDE;
#pragma unroll(gpu)
  for (int i = 0; i < LENGTH; ++i) {
    int pixel = start + (REVERSE == 1 ? LENGTH - 1 - i : i) * STRIDE;
    OUT_VEC v = LOAD(X, slice * OUT_PIXELS + pixel);
    store(slice, pixel, EXCLUSIVE == 1 ? sum : sum + v);
    sum += v;
  }
#endif
}
