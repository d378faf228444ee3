#version 310 es
#extension GL_GOOGLE_include_directive : require

// A pointwise convolution of INNER_EPILOGUE of a depthwise one, whose result is nowhere stored.
//
// An invocation computes SLICES slices of a run, and all the depthwise results that they take.
// W: see lib/product.glsl; D: see lib/depthwise.glsl.
#ifndef ASSEMBLED
#define IN_PIXELS 60  // pixels of X
#endif
#define D_INPUT INPUT2
#include "lib/depthwise.glsl"
#include "lib/inner.glsl"
#define TILE Run
#include "lib/product.glsl"

int tile_pixel(Run run, int p) { return run_pixel(run, p); }

void main() {
  Run run = find_run(PIXEL_INVOCATION);
  int slice = SLICE_INVOCATION * SLICES;
  int row = weight_row(slice);
  vec4 sum[PIXELS][SLICES];
  start_with_biases(sum, row);
  int w = first_weight(row, 1, 0);
  int in_pixels = IN_PIXELS, step = SLICE_TEXELS * BLOCK;  // uniforms are loaded before the loop
#pragma unroll(gpu)
  for (int k = 0; k < IN_SLICES; ++k) {
    vec4 v[PIXELS];
    convolve(v, run, k, IN_SLICES, in_pixels);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) v[p] = inner_of(v[p], k);
    add_product(sum, v, w);
    w += step;
  }
  store_tile(sum, run, slice);
}
