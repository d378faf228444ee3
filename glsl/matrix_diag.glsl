#version 310 es
#extension GL_GOOGLE_include_directive : require

// MATRIX_DIAG and MATRIX_SET_DIAG: matrices with the given diagonals, and X or 0 elsewhere.
#ifndef ASSEMBLED
#define ROWS 6  // of a matrix
#define DIAGONAL_PIXELS 10  // pixels of DIAGONAL, one for each matrix
#define HAS_MATRIX 1  // 0: without X
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(DIAGONAL)
#if HAS_MATRIX
INPUT1(X)
#endif

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
#if HAS_MATRIX
  OUT_VEC v = LOAD(X, slice * OUT_PIXELS + pixel);
#else
  OUT_VEC v = OUT_VEC(0);
#endif
  int row = pixel % ROWS;
  if (row / 4 == slice && row < OUT_CHANNELS)
    v[row % 4] = LOAD_CHANNEL(DIAGONAL, row, pixel / ROWS, DIAGONAL_PIXELS);
  store(slice, pixel, v);
}
