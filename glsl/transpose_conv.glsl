// TRANSPOSE_CONV: Y[STRIDE * i - PAD + tap][o] = bias[o] + sum over i, tap and c of W[o][tap][c] * X[i][c].
//
// Outputs that lie STRIDE apart form a phase: they see the same taps. A work group computes outputs
// of one phase, of which there are GROUPS work groups; an invocation PIXELS outputs of SLICES slices.
// W: see lib/product.glsl.
#define TAPS (KERNEL_H * KERNEL_W)
#include "lib/tensor.glsl"
#include "lib/product.glsl"

#define PHASE_W ((OUT_W + STRIDE_W - 1) / STRIDE_W)  // columns of a phase
#define PHASE_H ((OUT_H + STRIDE_H - 1) / STRIDE_H)

int target[PIXELS];  // the output's pixels
int tile_pixel(int p) { return target[p]; }

// Adds what the input's texels at `index` (negative: zero) contribute under one tap.
void add_tap(inout vec4 sum[PIXELS][SLICES], int index[PIXELS], int row, int tap) {
  int w = first_weight(row, tap * IN_SLICES);
#pragma unroll(gpu)
  for (int k = 0; k < IN_SLICES; ++k) {
    vec4 v[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      v[p] = LOAD_OR_ZERO(X, index[p]);
      index[p] += IN_PIXELS;
    }
    add_product(sum, v, w);
    w += 4 * BLOCK;
  }
}

void main() {
  int group = int(gl_WorkGroupID.PIXEL_AXIS), phase = QUOTIENT(group, GROUPS);
  int first = (group - phase * GROUPS) * (PIXEL_LANES * PIXELS) + int(gl_LocalInvocationID.PIXEL_AXIS);
  int slice = SLICE_INVOCATION * SLICES;
  int row = weight_row(slice);
  vec4 sum[PIXELS][SLICES];
  start_with_biases(sum, row);
  int column_phase = phase % STRIDE_W + PAD_W, row_phase = phase / STRIDE_W + PAD_H;

  // The input pixel under an output's first tap; its other taps see the pixels before that one.
  int left[PIXELS], top[PIXELS], image[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    int q = first + p * PIXEL_LANES;
    int lines = QUOTIENT(q, PHASE_W), batch = QUOTIENT(lines, PHASE_H);
    int column = q - lines * PHASE_W, line = lines - batch * PHASE_H;
    int x = column * STRIDE_W + phase % STRIDE_W, y = line * STRIDE_H + phase / STRIDE_W;
    bool inside = batch < BATCH && x < OUT_W && y < OUT_H;
    left[p] = column + column_phase / STRIDE_W;
    top[p] = line + row_phase / STRIDE_H;
    image[p] = batch * (IN_H * IN_W);
    target[p] = inside ? (batch * OUT_H + y) * OUT_W + x : -1;
  }

  for (int ky = row_phase % STRIDE_H; ky < KERNEL_H; ky += STRIDE_H) {
    for (int kx = column_phase % STRIDE_W; kx < KERNEL_W; kx += STRIDE_W) {
      int index[PIXELS];  // of the texel of X under the tap
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) {
        int x = left[p] - kx / STRIDE_W, y = top[p] - ky / STRIDE_H;
        bool inside = target[p] >= 0 && uint(x) < uint(IN_W) && uint(y) < uint(IN_H);
        index[p] = inside ? image[p] + y * IN_W + x : OUTSIDE;
      }
      add_tap(sum, index, row, ky * KERNEL_W + kx);
    }
  }
  store_tile(sum, slice);
}
