// A pointwise convolution of INNER_EPILOGUE of a depthwise one, whose result is nowhere stored.
//
// An invocation computes SLICES slices of a run, and all the depthwise results that they take.
// W: see lib/product.glsl; D: see lib/depthwise.glsl.
#include "lib/tensor.glsl"
#define TAPS 1
#include "lib/product.glsl"

INPUT2(D)
#define D_SLICES IN_SLICES
#include "lib/depthwise.glsl"

int tile_pixel(int p) { return run_pixel(p); }

void main() {
  find_run(PIXEL_INVOCATION);
  int slice = SLICE_INVOCATION * SLICES;
  int row = weight_row(slice);
  vec4 sum[PIXELS][SLICES];
  start_with_biases(sum, row);
  int w = first_weight(row, 0);
  int in_pixels = IN_PIXELS, step = 4 * BLOCK;  // uniforms are loaded before the loop
#pragma unroll(gpu)
  for (int k = 0; k < IN_SLICES; ++k) {
    vec4 v[PIXELS];
    convolve(v, k, in_pixels);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) v[p] = INNER_EPILOGUE(v[p]);
    add_product(sum, v, w);
    w += step;
  }
  store_tile(sum, slice);
}
