#version 310 es
#extension GL_GOOGLE_include_directive : require

// Y[o] = bias[o] + sum over taps and i of W[o][tap][i] * X[i] at the tap: CONV_2D, FULLY_CONNECTED,
// for large tensors. Each work group loads its block of X and W once; see lib/blocks.glsl. A window
// takes one tap after the other, each with all input slices. A step has slices of one tap.
//
// Or a pointwise convolution of a depthwise one of X, whose results go to shared memory only.
// D: see lib/depthwise.glsl.
#ifndef ASSEMBLED
#define POINTWISE 0  // 1: output pixel p sees input pixel p and no other
#define DEPTHWISE 0  // 1: the window is that of a depthwise convolution
#define IN_PIXELS 60  // pixels of X
#define IN_H 10  // rows of an image of X
#define IN_W 6  // columns of X
#define OUT_H 10  // rows of an image of the output
#define OUT_W 6  // columns of the output
#define KERNEL_H 3  // rows of the window, given if DEPTHWISE
#define KERNEL_W 3  // columns of the window
#define STRIDE_H 1  // input rows from one output to the next
#define STRIDE_W 1  // input columns from one output to the next
#define DILATION_H 1  // input rows from one tap to the next
#define DILATION_W 1  // input columns from one tap to the next
#define PAD_H 1  // padding above X
#define PAD_W 1  // padding to its left
#endif
#include "lib/product.glsl"
#if !POINTWISE
#define PLACE ivec3  // column, row and pixel under the window's first tap; it may be outside of X
#endif
#include "lib/blocks.glsl"

INPUT0(X)
#if DEPTHWISE
INPUT2(D)
#include "lib/inner.glsl"
#endif

int tile_pixel(int first, int p) {
  int pixel = first + p * PIXEL_LANES;
  return pixel < OUT_PIXELS ? pixel : -1;
}

int block_pixel(int i) { return min(PIXEL_GROUP * BLOCK_PIXELS + i, OUT_PIXELS - 1); }

#if POINTWISE
int place_of_x(int i) { return block_pixel(i); }

vec4 texel_of_x(int k, int slice, int pixel) { return LOAD(X, (k + slice) * IN_PIXELS + pixel); }
#else
vec4 tap_of_x(int slice, ivec3 place, int x, int y) {
  bool inside = uint(place.x + x) < uint(IN_W) && uint(place.y + y) < uint(IN_H);
  return LOAD_OR_ZERO(X, inside ? slice * IN_PIXELS + y * IN_W + x + place.z : OUTSIDE);
}

ivec3 place_of_x(int i) {
  int pixel = block_pixel(i), row = QUOTIENT(pixel, OUT_W), image = QUOTIENT(row, OUT_H);
  int x = (pixel - row * OUT_W) * STRIDE_W - PAD_W;
  int y = (row - image * OUT_H) * STRIDE_H - PAD_H;
  return ivec3(x, y, (image * IN_H + y) * IN_W + x);
}

#if DEPTHWISE
vec4 texel_of_x(int k, int slice, ivec3 place) {
  slice += k;
  int tap = IN_SLICES + slice * (KERNEL_H * KERNEL_W);
  vec4 v = LOAD(D, slice);
  for (int y = 0; y < KERNEL_H; ++y) {
    for (int x = 0; x < KERNEL_W; ++x) {
      v += tap_of_x(slice, place, x * DILATION_W, y * DILATION_H) * LOAD(D, tap);
      ++tap;
    }
  }
  return inner_of(v, slice);
}
#else
vec4 texel_of_x(int k, int slice, ivec3 place) {
  int tap = QUOTIENT(k, IN_SLICES), line = QUOTIENT(tap, KERNEL_W);
  int x = (tap - line * KERNEL_W) * DILATION_W, y = line * DILATION_H;
  return tap_of_x(k - tap * IN_SLICES + slice, place, x, y);
}
#endif
#endif

WEIGHT_TEXEL texel_of_w(int k, int i) {
  int block = min(SLICE_GROUP, (W_SLICES - 1) / BLOCK_SLICES);
  int first = FIRST_MATRIX + (block * (STEPS * BLOCK_DEPTH) + k) * (SLICE_TEXELS * BLOCK_SLICES);
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
