// The product of a register tile with weights, shared by the convolutions.
//
// W: the biases of W_SLICES slices, in a multiple of 4 texels; if the columns are int8 or int4, the
// scales of these slices likewise, by which the biases are divided; then for each BLOCK of slices, at
// each tap and input slice, the 4 columns of every slice of the block, in SLICE_TEXELS texels each. An
// invocation computes PIXELS pixels of SLICES slices.
#ifndef LIB_PRODUCT
#define LIB_PRODUCT
#ifndef ASSEMBLED
#define PIXELS 2  // pixels of the register tile
#define SLICES 2  // slices of the register tile
#define IN_LANES 4  // channels of an input slice that are multiplied
#define IN_SLICES 3  // input slices
#define W_SLICES 4  // slices of the weights: the output's, rounded up to whole tiles
#define BLOCK 2  // slices whose weights lie side by side
#define STORE_LOOP 0  // 1: store the tile in a loop
#undef STORES  // PIXELS * SLICES, given if STORE_LOOP
#endif
#include "lib/shared.glsl"
#include "lib/weights.glsl"

#if WEIGHT_COLUMNS == 8
#define SLICE_TEXELS 1  // half texels
#define FIRST_MATRIX (4 * BIAS_TEXELS)
#else
#define SLICE_TEXELS (4 / WEIGHT_COLUMNS)
#define FIRST_MATRIX (WEIGHT_COLUMNS == 4 ? 2 * BIAS_TEXELS : BIAS_TEXELS)
#endif
#define BIAS_TEXELS ((W_SLICES + 3) / 4 * 4)

WEIGHT_INPUT(W)

// What tile_pixel has to know of the tile; the including shader may choose another type.
#ifndef TILE
#define TILE int
#endif

// The output's pixel that is number `p` of the tile, negative if there is none.
int tile_pixel(TILE tile, int p);

// The first of the tile's rows of weights, for its first slice.
int weight_row(int slice) { return min(slice, W_SLICES - SLICES); }

// One of the lanes that share a sum adds the bias.
#if REDUCTION_LANES > 1
#define BIAS(v) (REDUCTION_LANE == 0 ? v : vec4(0.0))
#else
#define BIAS(v) v
#endif

void start_with_biases(out vec4 sum[PIXELS][SLICES], int row) {
#pragma unroll
  for (int s = 0; s < SLICES; ++s) {
    vec4 bias = BIAS(bias_of(LOAD_WEIGHT(W, weight_place(row + s), 0)));
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sum[p][s] = bias;
  }
}

// The first texel of the weights for input slice `k`, counted over all `taps`; those for the next
// slice lie SLICE_TEXELS * BLOCK further on.
int first_weight(int row, int taps, int k) {
  int slices = (row / BLOCK * (taps * IN_SLICES) + k) * BLOCK + row % BLOCK;
  return FIRST_MATRIX + slices * SLICE_TEXELS;
}

// With SLICE_SUMS the products of a slice are added to each other. Otherwise each is added to the sum,
// which a GPU that multiplies and adds in one computes with four instructions for five.
#if SLICE_SUMS
#define SUM_BEFORE(sum)
#define SUM_AFTER(sum, product) (sum + product)
#else
#define SUM_BEFORE(sum) sum +
#define SUM_AFTER(sum, product) product
#endif

// Adds the product of an input slice `v` and the weights from texel `w` on.
void add_product(inout vec4 sum[PIXELS][SLICES], PRODUCT_PRECISION vec4 v[PIXELS], int w) {
#pragma unroll
  for (int s = 0; s < SLICES; ++s) {
    PRODUCT_PRECISION vec4 column[IN_LANES];
    WEIGHT_PLACE place = weight_place(w + SLICE_TEXELS * s);
#pragma unroll
    for (int i = 0; i < IN_LANES; ++i) column[i] = LOAD_COLUMN(W, place, i);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      PRODUCT_PRECISION vec4 product = SUM_BEFORE(sum[p][s]) column[0] * v[p][0];
#pragma unroll
      for (int i = 1; i < IN_LANES; ++i) product += column[i] * v[p][i];
      sum[p][s] = SUM_AFTER(sum[p][s], product);
    }
  }
}

// Stores the sums, whose slices begin with `slice`.
void store_tile(vec4 sum[PIXELS][SLICES], TILE tile, int slice) {
#if REDUCTION_LANES > 1
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
#pragma unroll
    for (int s = 0; s < SLICES; ++s) JOIN(sum[p][s], SUM);
  }
  if (REDUCTION_LANE > 0) return;
#endif
#if WEIGHT_COLUMNS >= 4
#pragma unroll
  for (int s = 0; s < SLICES; ++s) {
    vec4 scale = bias_of(LOAD_WEIGHT(W, weight_place(BIAS_TEXELS + weight_row(slice) + s), 0));
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sum[p][s] *= scale;
  }
#endif
#if STORE_LOOP
  // Mesa turns an index into a shorter array into branches, and unrolls a loop whose end it knows.
  vec4 result[64];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
#pragma unroll
    for (int s = 0; s < SLICES; ++s) result[p * SLICES + s] = sum[p][s];
#pragma unroll(gpu)
  for (int i = 0; i < STORES; ++i) {
    int pixel = tile_pixel(tile, i / SLICES), at = slice + i % SLICES;
    if (pixel >= 0 && at < OUT_SLICES) store(at, pixel, result[i]);
  }
#else
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    int pixel = tile_pixel(tile, p);
#pragma unroll
    for (int s = 0; s < SLICES; ++s)
      if (pixel >= 0 && slice + s < OUT_SLICES) store(slice + s, pixel, sum[p][s]);
  }
#endif
}
#endif
