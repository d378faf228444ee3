#version 310 es
#extension GL_GOOGLE_include_directive : require

// BATCH_MATMUL: Y[m][n] = sum over k of A[m][k] * B[k][n], or B[n][k] if B_ADJOINT, in each batch.
//
// An invocation computes a register tile, PIXELS rows m of SLICES slices of n.
#ifndef ASSEMBLED
#define PIXELS 2  // rows of the register tile
#define SLICES 2  // slices of the register tile
#define IN_BLOCKS 0  // 1: work groups load what they multiply; see lib/blocks.glsl
#define BATCHES 6  // matrices of Y
#define TILES 5  // register tiles that the rows of a matrix make; if IN_BLOCKS, work groups
#define SIZES int[2](2, 3)  // coordinates of a matrix of Y
#define A_STRIDES int[2](3, 1)  // its matrix in A is the sum of coordinate * stride
#define B_STRIDES int[2](0, 1)  // and in B
#define ROWS 10  // rows of a matrix of A and of Y
#define DEPTH 12  // numbers summed up
#define A_PIXELS 60  // rows of all matrices of A
#define B_PIXELS 36  // and of B
#define B_ROWS 12  // rows of a matrix of B
#define B_ADJOINT 0  // 1: B is transposed
#define SCALE 1.0  // of the results
#define A_MATRICES int[2](6, 1)  // coordinates of a matrix of A in the tensor that holds them
#define A_STEPS int[2](10, 0)  // its texels begin at A_FIRST + the sum of coordinate * step
#define A_FIRST 0
#define A_LENGTH 10  // row r lies at r / A_LENGTH, and r % A_LENGTH
#define A_JUMPS int[2](0, 1)  // times these
#define A_IN_LINE 1  // 1: the first of these is 0, and A_LENGTH is all rows
#define B_MATRICES int[2](3, 1)
#define B_STEPS int[2](12, 0)
#define B_FIRST 0
#define B_LENGTH 12
#define B_JUMPS int[2](0, 1)
#define B_IN_LINE 1
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(A)
INPUT1(B)

int jumped(int row, int size, int jumps[2]) {
  int outer = DIVIDED(row, size);
  return outer * jumps[0] + (row - outer * size) * jumps[1];
}

// The first texel of a matrix, and how far a row lies from there.
#define START_A(i) (A_FIRST + element_at(coordinates_of(i, A_MATRICES), A_STEPS))
#define START_B(i) (B_FIRST + element_at(coordinates_of(i, B_MATRICES), B_STEPS))
#if A_IN_LINE
#define ROW_A(i) ((i)*A_JUMPS[1])
#else
#define ROW_A(i) jumped(i, A_LENGTH, A_JUMPS)
#endif
#if B_IN_LINE
#define ROW_B(i) ((i)*B_JUMPS[1])
#else
#define ROW_B(i) jumped(i, B_LENGTH, B_JUMPS)
#endif

// Lane i of four texels of B, of the matrix whose first texel is `b`.
#if B_ADJOINT
#define PRODUCT(m, v) ((v) * (m))
vec4 texel_of_b(int b, int k, int column, int i) {
  return LOAD(B, k * B_PIXELS + b + ROW_B(min(4 * column + i, B_ROWS - 1)));
}
#else
#define PRODUCT(m, v) ((m) * (v))
vec4 texel_of_b(int b, int k, int column, int i) {
  int row = 4 * k + i;
  return LOAD_OR_ZERO(B, column * B_PIXELS + b + ROW_B(row) + int(row >= DEPTH) * OUTSIDE);
}
#endif

#if IN_BLOCKS
#define TILE PIXEL_GROUP
#define TILE_ROWS (PIXELS * PIXEL_LANES)
#define TILE_ROW(p) (PIXEL_LANE + (p)*PIXEL_LANES)
#define ADD_PRODUCT(sum, v, c) sum += PRODUCT(mat4(c[0], c[1], c[2], c[3]), v)
#include "lib/blocks.glsl"

int first_a, first_b, first_row;

int place_of_x(int i) { return first_a + ROW_A(min(first_row + i, ROWS - 1)); }

vec4 texel_of_x(int k, int slice, int pixel) { return LOAD(A, (k + slice) * A_PIXELS + pixel); }

WEIGHT_TEXEL texel_of_w(int k, int i) {
  int slice = i / 4;
  int column = min(SLICE_GROUP * BLOCK_SLICES + slice % BLOCK_SLICES, OUT_SLICES - 1);
  return texel_of_b(first_b, k + slice / BLOCK_SLICES, column, i % 4);
}
#else
#define TILE PIXEL_INVOCATION
#define TILE_ROWS PIXELS
#define TILE_ROW(p) (p)
#endif

void main() {
  int batch = TILE / TILES;
  int row = TILE % TILES * TILE_ROWS;
  int slice = SLICE_INVOCATION * SLICES;
#if !IN_BLOCKS
  if (batch >= BATCHES) return;
#endif
  int at[DIMS] = coordinates_of(min(batch, BATCHES - 1), SIZES);
  int a = START_A(element_at(at, A_STRIDES)), b = START_B(element_at(at, B_STRIDES));
  vec4 sum[PIXELS][SLICES];
#pragma unroll
  for (int s = 0; s < SLICES; ++s)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sum[p][s] = vec4(0.0);

#if IN_BLOCKS
  first_a = a;
  first_b = b;
  first_row = row;
  add_block_products(sum);
#else
  int x[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) x[p] = a + ROW_A(min(row + p, ROWS - 1));
  for (int k = 0; k < (DEPTH + 3) / 4; ++k) {
    vec4 v[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) v[p] = LOAD(A, k * A_PIXELS + x[p]);
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
      int column = min(slice + s, OUT_SLICES - 1);
      mat4 m = mat4(texel_of_b(b, k, column, 0), texel_of_b(b, k, column, 1),
                    texel_of_b(b, k, column, 2), texel_of_b(b, k, column, 3));
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) sum[p][s] += PRODUCT(m, v[p]);
    }
  }
#endif
#pragma unroll
  for (int s = 0; s < SLICES; ++s)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
      if (row + TILE_ROW(p) < ROWS && slice + s < OUT_SLICES)
        store(slice + s, batch * ROWS + row + TILE_ROW(p), sum[p][s] * SCALE);
}
