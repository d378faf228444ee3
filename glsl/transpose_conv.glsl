#version 310 es
#extension GL_GOOGLE_include_directive : require

// TRANSPOSE_CONV:
// Y[STRIDE * i - PAD + tap][o] = bias[o] + sum over i, tap and c of W[o][tap][c] * X[i][c].
//
// Outputs that lie STRIDE apart form a phase: they see the same taps. A work group computes outputs
// of one phase; an invocation a register tile, PIXELS outputs of SLICES slices.
// W: see lib/product.glsl.
#ifndef ASSEMBLED
#define PIXELS 2  // pixels of the register tile
#define BATCH 1  // images
#define GROUPS 4  // work groups of a phase
#define IN_PIXELS 15  // pixels of X
#define IN_H 5  // rows of X
#define IN_W 3  // columns of X
#define OUT_H 10  // rows of Y
#define OUT_W 6  // columns of Y
#define KERNEL_H 3  // rows of the window
#define KERNEL_W 3  // columns of the window
#define STRIDE_H 2  // rows of Y for one of X
#define STRIDE_W 2  // columns of Y for one of X
#define PAD_H 0  // rows cut off above Y
#define PAD_W 0  // columns cut off to its left
#endif
#define TILE Targets
struct Targets {
  int pixel[PIXELS];  // of the output, -1 if there is none
};
#include "lib/tensor.glsl"
#include "lib/product.glsl"

INPUT0(X)

#define PHASE_W ((OUT_W + STRIDE_W - 1) / STRIDE_W)  // columns of a phase
#define PHASE_H ((OUT_H + STRIDE_H - 1) / STRIDE_H)  // rows of a phase

int tile_pixel(Targets targets, int p) { return targets.pixel[p]; }

// Adds what the input's texels at `index` (negative: zero) contribute under one tap.
void add_tap(inout vec4 sum[PIXELS][SLICES], int index[PIXELS], int row, int tap) {
  int w = first_weight(row, KERNEL_H * KERNEL_W, tap * IN_SLICES);
#pragma unroll(gpu)
  for (int k = 0; k < IN_SLICES; ++k) {
    vec4 v[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      v[p] = LOAD_OR_ZERO(X, index[p]);
      index[p] += IN_PIXELS;
    }
    add_product(sum, v, w);
    w += SLICE_TEXELS * BLOCK;
  }
}

void main() {
  int phase = QUOTIENT(PIXEL_GROUP, GROUPS);
  int first = (PIXEL_GROUP - phase * GROUPS) * (PIXEL_LANES * PIXELS) + PIXEL_LANE;
  int slice = SLICE_INVOCATION * SLICES;
  int row = weight_row(slice);
  vec4 sum[PIXELS][SLICES];
  start_with_biases(sum, row);
  int column_phase = phase % STRIDE_W + PAD_W, row_phase = phase / STRIDE_W + PAD_H;

  Targets targets;
  // The input pixel under an output's first tap; its other taps see the pixels before that one.
  int left[PIXELS], top[PIXELS], image[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    int q = first + p * PIXEL_LANES;
    int lines = QUOTIENT(q, PHASE_W), batch = QUOTIENT(lines, PHASE_H);
    int column = q - lines * PHASE_W, line = lines - batch * PHASE_H;
    int x = column * STRIDE_W + phase % STRIDE_W, y = line * STRIDE_H + phase / STRIDE_W;
    bool here = batch < BATCH && x < OUT_W && y < OUT_H;
    left[p] = column + column_phase / STRIDE_W;
    top[p] = line + row_phase / STRIDE_H;
    image[p] = batch * (IN_H * IN_W);
    targets.pixel[p] = here ? (batch * OUT_H + y) * OUT_W + x : -1;
  }

  for (int ky = row_phase % STRIDE_H; ky < KERNEL_H; ky += STRIDE_H) {
    for (int kx = column_phase % STRIDE_W; kx < KERNEL_W; kx += STRIDE_W) {
      int index[PIXELS];  // of the texel of X under the tap
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) {
        int x = left[p] - kx / STRIDE_W, y = top[p] - ky / STRIDE_H;
        bool inside = targets.pixel[p] >= 0 && uint(x) < uint(IN_W) && uint(y) < uint(IN_H);
        index[p] = inside ? image[p] + y * IN_W + x : OUTSIDE;
      }
      add_tap(sum, index, row, ky * KERNEL_W + kx);
    }
  }
  store_tile(sum, targets, slice);
}
