// DEPTHWISE_CONV_2D: Y[o] = bias[o] + sum over taps of W[tap][o] * X[o / MULTIPLIER] at the tap.
//
// An invocation computes TILE_H x TILE_W outputs of one slice. At stride 1 they lie DILATION
// apart, so that neighbours share inputs whatever the dilation is.
// W: biases, then of each slice KERNEL_H x KERNEL_W taps.
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(W)

#define STEP_H (STRIDE_H == 1 ? DILATION_H : 1)
#define STEP_W (STRIDE_W == 1 ? DILATION_W : 1)

const int ROWS = (TILE_H - 1) * STRIDE_H + KERNEL_H;  // of inputs under a tile
const int COLUMNS = (TILE_W - 1) * STRIDE_W + KERNEL_W;

// The input texel that feeds the channels of an output slice.
vec4 load(int slice, int pixel) {
#if MULTIPLIER == 1
  return LOAD_OR_ZERO(X, slice * IN_PIXELS + pixel);
#else
  vec4 v;
  for (int lane = 0; lane < 4; ++lane) {
    int channel = min((4 * slice + lane) / MULTIPLIER, IN_CHANNELS - 1);
    v[lane] = LOAD_OR_ZERO(X, channel / 4 * IN_PIXELS + pixel)[channel % 4];
  }
  return v;
#endif
}

void main() {
  int tile = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  int tile_x = tile % TILES_W, tile_y = tile / TILES_W % TILES_H, batch = tile / (TILES_W * TILES_H);
  int out_x = tile_x / STEP_W * (TILE_W * STEP_W) + tile_x % STEP_W;
  int out_y = tile_y / STEP_H * (TILE_H * STEP_H) + tile_y % STEP_H;
  int in_x = out_x * STRIDE_W - PAD_W, in_y = out_y * STRIDE_H - PAD_H;

  int row = min(slice, OUT_SLICES - 1);
  vec4 bias = LOAD(W, row);
  vec4 sum[TILE_H * TILE_W];
  for (int i = 0; i < TILE_H * TILE_W; ++i) sum[i] = bias;
  vec4 weight[KERNEL_H * KERNEL_W];
  for (int i = 0; i < KERNEL_H * KERNEL_W; ++i) weight[i] = LOAD(W, OUT_SLICES + row * KERNEL_H * KERNEL_W + i);
  int column[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) {
    int x = in_x + c * DILATION_W;
    column[c] = uint(x) < uint(IN_W) ? x : OUTSIDE;
  }

  for (int r = 0; r < ROWS; ++r) {
    int y = in_y + r * DILATION_H;
    int line = uint(y) < uint(IN_H) && batch < BATCH ? (batch * IN_H + y) * IN_W : OUTSIDE;
    for (int c = 0; c < COLUMNS; ++c) {
      vec4 v = load(slice, max(line + column[c], OUTSIDE));
      for (int ty = 0; ty < TILE_H; ++ty) {
        for (int tx = 0; tx < TILE_W; ++tx) {
          int ky = r - ty * STRIDE_H, kx = c - tx * STRIDE_W;
          if (ky >= 0 && ky < KERNEL_H && kx >= 0 && kx < KERNEL_W)
            sum[ty * TILE_W + tx] += v * weight[ky * KERNEL_W + kx];
        }
      }
    }
  }

  for (int ty = 0; ty < TILE_H; ++ty) {
    for (int tx = 0; tx < TILE_W; ++tx) {
      int x = out_x + tx * STEP_W, y = out_y + ty * STEP_H;
      if (x < OUT_W && y < OUT_H && batch < BATCH && slice < OUT_SLICES)
        store(slice, (batch * OUT_H + y) * OUT_W + x, sum[ty * TILE_W + tx]);
    }
  }
}
