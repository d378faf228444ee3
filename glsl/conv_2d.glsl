#version 310 es
#extension GL_GOOGLE_include_directive : require

// Y[o] = bias[o] + sum over taps and i of W[o][tap][i] * X[i] at the tap; CONV_2D, FULLY_CONNECTED.
//
// An invocation computes a register tile, SLICES slices of PIXELS pixels. The pixels are a run or,
// if POINTWISE and not ADJACENT, lie PIXEL_LANES apart. W: see lib/product.glsl.
#ifndef ASSEMBLED
#define POINTWISE 0  // 1: output pixel p sees input pixel p and no other
#define IN_PIXELS 60  // pixels of X
#define ADJACENT 0  // 1: X has pairs of float16 texels; only if POINTWISE, with an even IN_PIXELS
#define STEPPED 0  // 1: add to addresses for each input slice; not with REDUCTION_LANES
#define GROUP_SLICES 0  // output slices that see the same IN_SLICES of X, and no others; 0: all
#endif
#include "lib/tensor.glsl"
#if !POINTWISE
#include "lib/runs.glsl"
#define TILE Run
#endif
#include "lib/product.glsl"

#if ADJACENT
layout(std430, binding = 1) readonly buffer Input0 { uvec4 X[]; };
#else
INPUT0(X)
#endif

#if GROUP_SLICES
#define FIRST_INPUT(row) ((row) / GROUP_SLICES * (IN_SLICES * IN_PIXELS))
#else
#define FIRST_INPUT(row) 0
#endif

#if ADJACENT
// The last tile begins earlier, to end with the image.
int tile_pixel(int first, int p) {
  return first < OUT_PIXELS ? min(first, OUT_PIXELS - PIXELS) + p : -1;
}
#elif POINTWISE
int input_pixel(int first, int p) { return min(first + p * PIXEL_LANES, OUT_PIXELS - 1); }
int tile_pixel(int first, int p) {
  int pixel = first + p * PIXEL_LANES;
  return pixel < OUT_PIXELS ? pixel : -1;
}
#else
int tile_pixel(Run run, int p) { return run_pixel(run, p); }
#endif

void main() {
  int slice = SLICE_INVOCATION * SLICES;
  int row = weight_row(slice), w = first_weight(row, KERNEL_H * KERNEL_W, 0);
  int in_pixels = IN_PIXELS, step = SLICE_TEXELS * BLOCK;  // uniforms are loaded before the loop
  int group = FIRST_INPUT(row);
  vec4 sum[PIXELS][SLICES], v[PIXELS];
  start_with_biases(sum, row);
#if ADJACENT
  int tile = PIXEL_INVOCATION * PIXELS;
  int x = (group + min(tile, OUT_PIXELS - PIXELS)) / 2;
  for (int k = REDUCTION_LANE; k < IN_SLICES; k += REDUCTION_LANES) {
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      uvec4 pair = X[x + p / 2];
      v[p] = unpacked(p % 2 == 0 ? pair.xy : pair.zw);
    }
    add_product(sum, v, w);
    x += in_pixels / 2;
    w += step;
  }
#elif POINTWISE
  int tile = FIRST_PIXEL(PIXELS);
#if STEPPED
  int x[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) x[p] = group + input_pixel(tile, p);
#endif
  for (int k = REDUCTION_LANE; k < IN_SLICES; k += REDUCTION_LANES) {
#if STEPPED
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      v[p] = LOAD(X, x[p]);
      x[p] += in_pixels;
    }
    add_product(sum, v, w);
    w += step;
#else
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) v[p] = LOAD(X, group + k * in_pixels + input_pixel(tile, p));
    add_product(sum, v, w + k * step);
#endif
  }
#elif BY_TAPS
  Run tile = find_run(PIXEL_INVOCATION);
  for (int ky = 0; ky < KERNEL_H; ++ky) {
    int line = run_line(tile, ky);
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      int x[PIXELS];
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) x[p] = group + run_input(line, run_column(tile, p, kx));
#if REDUCTION_LANES > 1
      w = first_weight(row, KERNEL_H * KERNEL_W, (ky * KERNEL_W + kx) * IN_SLICES + REDUCTION_LANE);
      int step = SLICE_TEXELS * BLOCK * REDUCTION_LANES;
#endif
      for (int k = REDUCTION_LANE; k < IN_SLICES; k += REDUCTION_LANES) {
#if STEPPED
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
          v[p] = LOAD_OR_ZERO(X, x[p]);
          x[p] += in_pixels;
        }
#else
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) v[p] = LOAD_OR_ZERO(X, k * in_pixels + x[p]);
#endif
        add_product(sum, v, w);
        w += step;
      }
    }
  }
#else
  Run tile = find_run(PIXEL_INVOCATION);
  int tap[KERNEL_W];
#pragma unroll
  for (int kx = 0; kx < KERNEL_W; ++kx) tap[kx] = w + kx * (IN_SLICES * step);
  // One loop, as each costs a copy of all sums on llvmpipe; Mesa would unroll one that goes through
  // an array, such as `tap`, however long it is.
  int ky = 0, k = 0;
  for (int i = 0; i < KERNEL_H * IN_SLICES; ++i) {
    int line = run_line(tile, ky);
    vec4 x[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
      x[c] = LOAD_OR_ZERO(X, group + k * in_pixels + run_input(line, tile.column[c]));
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
  store_tile(sum, tile, slice);
}
