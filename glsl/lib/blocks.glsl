// Products of a work group that loads what it multiplies into shared memory, once for all of its
// invocations: a block of BLOCK_PIXELS pixels by BLOCK_SLICES slices of the result. An invocation
// computes PIXELS pixels, PIXEL_LANES apart, of SLICES slices.
//
// While the group multiplies BLOCK_DEPTH input slices, the next ones are on their way, so each array has
// two halves.
#ifndef LIB_BLOCKS
#define LIB_BLOCKS
#ifndef ASSEMBLED
#define PIXELS 2  // pixels of the register tile
#define SLICES 2  // slices of the register tile
#define BLOCK_DEPTH 2  // input slices that are loaded at once
#define STEPS 3  // how often
#define X_LOADS 2  // texels of X that an invocation loads for a step
#endif
#include "lib/tensor.glsl"

#define LANES (PIXEL_LANES * SLICE_LANES)
#define LANE int(gl_LocalInvocationIndex)
#define BLOCK_PIXELS (PIXELS * PIXEL_LANES)
#define BLOCK_SLICES (SLICES * SLICE_LANES)
#define X_TEXELS (BLOCK_DEPTH * BLOCK_PIXELS)
#define COLUMNS_OF_STEP (4 * BLOCK_DEPTH * BLOCK_SLICES)
#define W_TEXELS (COLUMNS_OF_STEP / WEIGHT_COLUMNS)
#define W_LOADS ((W_TEXELS + LANES - 1) / LANES)

// The including shader may store weights in another way.
#ifndef WEIGHT_TEXEL
#define WEIGHT_TEXEL vec4
#define WEIGHT_COLUMNS 1
vec4 column_of(vec4 column, int i) { return column; }
#endif

// And multiply a texel and a matrix of columns in another way.
#ifndef ADD_PRODUCT
#define ADD_PRODUCT(sum, v, column) \
  sum += column[0] * v[0] + column[1] * v[1] + column[2] * v[2] + column[3] * v[3]
#endif

shared vec4 block_x[2 * X_TEXELS], block_w[2 * COLUMNS_OF_STEP];

// The texel of input slice `k` of the block's pixel `i`.
vec4 texel_of_x(int k, int i);

// Texel `i` of the block's weights from input slice `k` on: for each slice, each of the block's
// slices and each of four columns.
WEIGHT_TEXEL texel_of_w(int k, int i);

void load_block(int k, out vec4 x[X_LOADS], out WEIGHT_TEXEL w[W_LOADS]) {
#pragma unroll
  for (int i = 0; i < X_LOADS; ++i) {
    int at = min(LANE + i * LANES, X_TEXELS - 1);
    x[i] = texel_of_x(k + at / BLOCK_PIXELS, at % BLOCK_PIXELS);
  }
  for (int i = 0; i < W_LOADS; ++i) w[i] = texel_of_w(k, min(LANE + i * LANES, W_TEXELS - 1));
}

void share_block(int part, vec4 x[X_LOADS], WEIGHT_TEXEL w[W_LOADS]) {
#pragma unroll
  for (int i = 0; i < X_LOADS; ++i) {
    int at = LANE + i * LANES;
    if (at < X_TEXELS) block_x[part * X_TEXELS + at] = x[i];
  }
  for (int i = 0; i < W_LOADS; ++i) {
    int at = LANE + i * LANES;
    if (at < W_TEXELS) {
      for (int j = 0; j < WEIGHT_COLUMNS; ++j) {
        int number = at * WEIGHT_COLUMNS + j, slice = number / 4;
        int row = slice / BLOCK_SLICES * 4 + number % 4;  // neighbors read neighboring slices
        block_w[part * COLUMNS_OF_STEP + row * BLOCK_SLICES + slice % BLOCK_SLICES] =
            column_of(w[i], j);
      }
    }
  }
}

// Every invocation of the work group must get here.
void add_block_products(inout vec4 sum[PIXELS][SLICES]) {
  vec4 x[X_LOADS];
  WEIGHT_TEXEL w[W_LOADS];
  load_block(0, x, w);
  for (int k = 0; k < STEPS; ++k) {
    int part = k % 2;
    share_block(part, x, w);
    barrier();
    if (k + 1 < STEPS) load_block((k + 1) * BLOCK_DEPTH, x, w);
    int at_x = part * X_TEXELS + PIXEL_LANE;
    int at_w = part * COLUMNS_OF_STEP + SLICE_LANE * SLICES;
#pragma unroll
    for (int d = 0; d < BLOCK_DEPTH; ++d) {
      vec4 v[PIXELS];
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) v[p] = block_x[at_x + d * BLOCK_PIXELS + p * PIXEL_LANES];
#pragma unroll
      for (int s = 0; s < SLICES; ++s) {
        vec4 column[4];
        for (int i = 0; i < 4; ++i) column[i] = block_w[at_w + (4 * d + i) * BLOCK_SLICES + s];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) ADD_PRODUCT(sum[p][s], v[p], column);
      }
    }
  }
}
#endif
