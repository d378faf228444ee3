// DEPTHWISE_CONV_2D: Y[o] = bias[o] + sum over taps of W[tap][o] * X[o / MULTIPLIER] at the tap.
//
// An invocation computes PIXELS outputs of a row, of one slice. At stride 1 they lie DILATION_W
// apart, so that neighbours share inputs whatever the dilation is.
// W: biases, then of each slice KERNEL_H x KERNEL_W taps.
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(W)

#define STEP (STRIDE_W == 1 ? DILATION_W : 1)

const int COLUMNS = (PIXELS - 1) * STRIDE_W + KERNEL_W;  // of inputs under the outputs

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
  int run = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  int row = run / RUNS;  // of all images
  int start = run % RUNS / STEP * (PIXELS * STEP) + run % RUNS % STEP;
  int batch = row / OUT_H;
  int top = row % OUT_H * STRIDE_H - PAD_H;

  int column[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) {
    int x = start * STRIDE_W - PAD_W + c * DILATION_W;
    column[c] = uint(x) < uint(IN_W) ? x : OUTSIDE;
  }
  int w = min(slice, OUT_SLICES - 1);
  vec4 bias = LOAD(W, w);
  vec4 sum[PIXELS];
  for (int p = 0; p < PIXELS; ++p) sum[p] = bias;
  w = OUT_SLICES + w * (KERNEL_H * KERNEL_W);

  for (int ky = 0; ky < KERNEL_H; ++ky) {
    int y = top + ky * DILATION_H;
    int line = uint(y) < uint(IN_H) && batch < BATCH ? (batch * IN_H + y) * IN_W : OUTSIDE;
    vec4 v[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c) v[c] = load(slice, max(line + column[c], OUTSIDE));
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      vec4 weight = LOAD(W, w + ky * KERNEL_W + kx);
      for (int p = 0; p < PIXELS; ++p) sum[p] += v[p * STRIDE_W + kx] * weight;
    }
  }

  for (int p = 0; p < PIXELS; ++p) {
    int x = start + p * STEP;
    if (x < OUT_W && batch < BATCH && slice < OUT_SLICES) store(slice, row * OUT_W + x, sum[p]);
  }
}
