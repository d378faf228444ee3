// Products of a work group that loads what it multiplies into shared memory, once for all of its
// invocations: a block of BLOCK_PIXELS pixels by BLOCK_SLICES slices of the result. An invocation
// computes PIXELS pixels, PIXEL_LANES apart, of SLICES slices.
//
// While the group multiplies BLOCK_DEPTH input slices, the next ones are on their way to registers.
// With two PARTS each array has two halves, and they are written there before all have multiplied.
#ifndef LIB_BLOCKS
#define LIB_BLOCKS
#ifndef ASSEMBLED
#define PIXELS 2  // pixels of the register tile
#define SLICES 2  // slices of the register tile
#define BLOCK_DEPTH 2  // input slices that are loaded at once
#define STEPS 3  // how often
#define PARTS 2  // 1: there is no memory for two
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
// Rows of shared weights are two texels longer, so that the columns of a slice, which neighbors
// write, lie in different banks.
#define W_PITCH (BLOCK_SLICES + 2)
#define W_PART (4 * BLOCK_DEPTH * W_PITCH)

// Number `i` of the texels that an invocation loads of `count`; the last invocations may have none.
#define TEXEL_NUMBER(i) (LANE + (i)*LANES)
#define HAS_TEXEL(i, count) ((count) % LANES == 0 || TEXEL_NUMBER(i) < (count))
#define SOME_TEXEL(i, count) (HAS_TEXEL(i, count) ? TEXEL_NUMBER(i) : (count)-1)

// Where they are in X: an invocation loads a few pixels of several slices.
#if BLOCK_PIXELS % LANES == 0
#define X_PLACES (BLOCK_PIXELS / LANES)
#define X_SLICE(i) ((i) / X_PLACES)
#define X_PIXEL(i) TEXEL_NUMBER(i)
#else
#define X_PLACES X_LOADS
#define X_SLICE(i) (SOME_TEXEL(i, X_TEXELS) / BLOCK_PIXELS)
#define X_PIXEL(i) (SOME_TEXEL(i, X_TEXELS) % BLOCK_PIXELS)
#endif

// What texel_of_x has to know of a pixel; the including shader may choose another type.
#ifndef PLACE
#define PLACE int
#endif

// The including shader may store weights in another way.
#ifndef WEIGHT_TEXEL
#define WEIGHT_TEXEL vec4
#define WEIGHT_COLUMNS 1
vec4 column_of(vec4 column, int i) { return column; }
#endif

// And multiply a texel and a matrix of columns in another way. Four additions to the sum are four
// instructions if a GPU multiplies and adds in one; one addition of four products is five.
#ifndef ADD_PRODUCT
#define ADD_PRODUCT(sum, v, column) \
  sum += column[0] * v[0]; \
  sum += column[1] * v[1]; \
  sum += column[2] * v[2]; \
  sum += column[3] * v[3]
#endif

shared vec4 block_x[PARTS * X_TEXELS], block_w[PARTS * W_PART];

// Where the block's pixel `i` is in X.
PLACE place_of_x(int i);

// The texel of input slice `k + slice` of a pixel; `k` is the first of a step.
vec4 texel_of_x(int k, int slice, PLACE place);

// Texel `i` of the block's weights from input slice `k` on: for each slice, each of the block's
// slices and each of four columns.
WEIGHT_TEXEL texel_of_w(int k, int i);

void load_block(int k, PLACE places[X_PLACES], out vec4 x[X_LOADS], out WEIGHT_TEXEL w[W_LOADS]) {
#pragma unroll
  for (int i = 0; i < X_LOADS; ++i) x[i] = texel_of_x(k, X_SLICE(i), places[i % X_PLACES]);
  for (int i = 0; i < W_LOADS; ++i) w[i] = texel_of_w(k, SOME_TEXEL(i, W_TEXELS));
}

void share_block(int part, vec4 x[X_LOADS], WEIGHT_TEXEL w[W_LOADS]) {
#pragma unroll
  for (int i = 0; i < X_LOADS; ++i)
    if (HAS_TEXEL(i, X_TEXELS)) block_x[part * X_TEXELS + TEXEL_NUMBER(i)] = x[i];
  for (int i = 0; i < W_LOADS; ++i) {
    if (HAS_TEXEL(i, W_TEXELS)) {
      for (int j = 0; j < WEIGHT_COLUMNS; ++j) {
        int number = TEXEL_NUMBER(i) * WEIGHT_COLUMNS + j, slice = number / 4;
        int row = slice / BLOCK_SLICES * 4 + number % 4;  // neighbors read neighboring slices
        block_w[part * W_PART + row * W_PITCH + slice % BLOCK_SLICES] = column_of(w[i], j);
      }
    }
  }
}

// Every invocation of the work group must get here.
void add_block_products(inout vec4 sum[PIXELS][SLICES]) {
  PLACE places[X_PLACES];
  for (int i = 0; i < X_PLACES; ++i) places[i] = place_of_x(X_PIXEL(i));
  vec4 x[X_LOADS];
  WEIGHT_TEXEL w[W_LOADS];
  load_block(0, places, x, w);
  for (int k = 0; k < STEPS; ++k) {
    int part = k % PARTS;
    share_block(part, x, w);
    barrier();
    if (k + 1 < STEPS) load_block((k + 1) * BLOCK_DEPTH, places, x, w);
    int at_x = part * X_TEXELS + PIXEL_LANE;
    int at_w = part * W_PART + SLICE_LANE * SLICES;
#pragma unroll
    for (int d = 0; d < BLOCK_DEPTH; ++d) {
      vec4 v[PIXELS];
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) v[p] = block_x[at_x + d * BLOCK_PIXELS + p * PIXEL_LANES];
#pragma unroll
      for (int s = 0; s < SLICES; ++s) {
        vec4 column[4];
        for (int i = 0; i < 4; ++i) column[i] = block_w[at_w + (4 * d + i) * W_PITCH + s];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
          ADD_PRODUCT(sum[p][s], v[p], column);
        }
      }
    }
#if PARTS == 1
    barrier();
#endif
  }
}
#endif
