// Y[o] = bias[o] + sum over taps and i of W[o][tap][i] * X[i] at the tap; CONV_2D, FULLY_CONNECTED.
//
// An invocation computes SLICES slices of PIXELS pixels in registers: if POINTWISE, of pixels
// PIXEL_LANES apart, otherwise of a run.
// W: see lib/product.glsl.
#define TAPS (KERNEL_H * KERNEL_W)
#include "lib/tensor.glsl"
#include "lib/product.glsl"
#if POINTWISE
int first;  // of the invocation's pixels
int tile_pixel(int p) { return first + p * PIXEL_LANES < OUT_PIXELS ? first + p * PIXEL_LANES : -1; }
#else
#include "lib/runs.glsl"
int tile_pixel(int p) { return run_pixel(p); }
#endif

void main() {
  int slice = SLICE_INVOCATION * SLICES;
  int row = weight_row(slice), w = first_weight(row, 0);
  int in_pixels = IN_PIXELS, step = 4 * BLOCK;  // uniforms are loaded before the loop
  vec4 sum[PIXELS][SLICES], v[PIXELS];
  start_with_biases(sum, row);
#if POINTWISE
  first = FIRST_PIXEL(PIXELS);
#pragma unroll(gpu)
  for (int k = 0; k < IN_SLICES; ++k) {
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
      v[p] = LOAD(X, k * in_pixels + min(first + p * PIXEL_LANES, OUT_PIXELS - 1));
    add_product(sum, v, w + k * step);
  }
#else
  find_run(PIXEL_INVOCATION);
  int tap[KERNEL_W];
#pragma unroll
  for (int kx = 0; kx < KERNEL_W; ++kx) tap[kx] = w + kx * (IN_SLICES * step);
  // One loop, as each costs a copy of all sums on llvmpipe; Mesa would unroll one that goes through
  // an array, such as `tap`, however long it is.
  int ky = 0, k = 0;
  for (int i = 0; i < KERNEL_H * IN_SLICES; ++i) {
    int line = run_line(ky);
    vec4 x[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) x[c] = LOAD_OR_ZERO(X, k * in_pixels + run_input(line, c));
#pragma unroll
    for (int kx = 0; kx < KERNEL_W; ++kx) {
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) v[p] = x[p * STRIDE_W + kx];
      add_product(sum, v, tap[kx] + (ky * KERNEL_W * IN_SLICES + k) * step);
    }
    int next_row = int(++k == IN_SLICES);
    ky += next_row;
    k *= 1 - next_row;
  }
#endif
  store_tile(sum, slice);
}
