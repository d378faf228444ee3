#version 310 es
#extension GL_GOOGLE_include_directive : require

// Y[o] = bias[o] + sum over i of W[o][i] * X[i]: CONV_2D of single pixels, FULLY_CONNECTED, for
// large tensors. Each work group loads its block of X and W once; see lib/blocks.glsl.
#ifndef ASSEMBLED
#define IN_PIXELS 60  // pixels of X
#endif
#include "lib/product.glsl"
#include "lib/blocks.glsl"

INPUT0(X)

int tile_pixel(int first, int p) {
  int pixel = first + p * PIXEL_LANES;
  return pixel < OUT_PIXELS ? pixel : -1;
}

vec4 texel_of_x(int k, int i) {
  return LOAD(X, k * IN_PIXELS + min(PIXEL_GROUP * BLOCK_PIXELS + i, OUT_PIXELS - 1));
}

WEIGHT_TEXEL texel_of_w(int k, int i) {
  int block = min(SLICE_GROUP, (W_SLICES - 1) / BLOCK_SLICES);
  int first = FIRST_MATRIX + (block * IN_SLICES + k) * (SLICE_TEXELS * BLOCK_SLICES);
#if WEIGHT_COLUMNS == 8
  first /= 2;
#endif
  return LOAD_WEIGHT(W, weight_place(first + i), 0);
}

void main() {
  int slice = SLICE_INVOCATION * SLICES;
  vec4 sum[PIXELS][SLICES];
  start_with_biases(sum, slice);
  add_block_products(sum);
  store_tile(sum, FIRST_PIXEL(PIXELS), slice);
}
