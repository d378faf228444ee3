// Depthwise convolution, shared by the shader of its own and the one that multiplies its result:
// V[c] = bias[c] + sum over taps of D[tap][c] * X[c / MULTIPLIER] at the tap.
//
// D: biases of D_SLICES slices, then of each slice KERNEL_H x KERNEL_W taps.
#include "lib/runs.glsl"

// The input texel that feeds the channels of a slice.
vec4 input_of(int slice, int pixel, int in_pixels) {
#if MULTIPLIER == 1
  return LOAD_OR_ZERO(X, slice * in_pixels + pixel);
#else
  vec4 v;
  for (int lane = 0; lane < 4; ++lane) {
    int channel = min((4 * slice + lane) / MULTIPLIER, IN_CHANNELS - 1);
    v[lane] = LOAD_OR_ZERO(X, channel / 4 * in_pixels + pixel)[channel % 4];
  }
  return v;
#endif
}

// The run's results of one slice; `in_pixels` is IN_PIXELS.
void convolve(out vec4 sum[PIXELS], int slice, int in_pixels) {
  vec4 bias = LOAD(D, slice);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[p] = bias;
  int tap = D_SLICES + slice * (KERNEL_H * KERNEL_W);
#pragma unroll(gpu)
  for (int ky = 0; ky < KERNEL_H; ++ky) {
    int line = run_line(ky);
    vec4 v[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) v[c] = input_of(slice, run_input(line, c), in_pixels);
#pragma unroll
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      vec4 weight = LOAD(D, tap++);
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) sum[p] += v[p * STRIDE_W + kx] * weight;
    }
  }
}
