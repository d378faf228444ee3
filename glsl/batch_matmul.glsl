// BATCH_MATMUL: Y[m][n] = sum over k of A[m][k] * B[k][n], or B[n][k] if B_ADJOINT, in each batch.
//
// An invocation computes PIXELS rows m of SLICES slices of n; a batch has TILES such groups of rows.
// A batch of Y has coordinates in SIZES; its matrices in A and B are the sums of coordinate * STRIDES.
#include "lib/tensor.glsl"

INPUT0(A)
INPUT1(B)

int matrix_of(int batch, int strides[DIMS]) {
  const int sizes[DIMS] = SIZES;
  int matrix = 0;
  for (int d = DIMS - 1; d >= 0; --d) {
    matrix += batch % sizes[d] * strides[d];
    batch /= sizes[d];
  }
  return matrix;
}

int b;  // the first texel of the matrix in B

#if B_ADJOINT
#define PRODUCT(m, v) ((v) * (m))
vec4 texel_of_b(int k, int column, int i) {
  return LOAD(B, k * B_PIXELS + b + min(4 * column + i, B_ROWS - 1));
}
#else
#define PRODUCT(m, v) ((m) * (v))
vec4 texel_of_b(int k, int column, int i) {
  int row = 4 * k + i;
  return LOAD_OR_ZERO(B, column * B_PIXELS + b + row + int(row >= DEPTH) * OUTSIDE);
}
#endif

void main() {
  int batch = PIXEL_INVOCATION / TILES;
  int row = PIXEL_INVOCATION % TILES * PIXELS;
  int slice = SLICE_INVOCATION * SLICES;
  if (batch >= BATCHES || slice >= OUT_SLICES) return;
  int a = matrix_of(batch, A_STRIDES) * ROWS;
  b = matrix_of(batch, B_STRIDES) * B_ROWS;
  vec4 sum[PIXELS][SLICES];
#pragma unroll
  for (int s = 0; s < SLICES; ++s)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sum[p][s] = vec4(0.0);

  for (int k = 0; k < (DEPTH + 3) / 4; ++k) {
    vec4 v[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) v[p] = LOAD(A, k * A_PIXELS + a + min(row + p, ROWS - 1));
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
      int column = min(slice + s, OUT_SLICES - 1);
      mat4 m = mat4(texel_of_b(k, column, 0), texel_of_b(k, column, 1), texel_of_b(k, column, 2),
                    texel_of_b(k, column, 3));
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) sum[p][s] += PRODUCT(m, v[p]);
    }
  }
#pragma unroll
  for (int s = 0; s < SLICES; ++s)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
      if (row + p < ROWS && slice + s < OUT_SLICES) store(slice + s, batch * ROWS + row + p, sum[p][s]);
}
