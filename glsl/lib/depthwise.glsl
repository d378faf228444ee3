// Depthwise convolution, shared by its own shader and the one that multiplies its result:
// V[c] = bias[c] + sum over taps of D[tap][c] * X[c / MULTIPLIER] at the tap.
//
// D: the biases of all slices of V, then of each slice KERNEL_H x KERNEL_W taps.
#ifndef LIB_DEPTHWISE
#define LIB_DEPTHWISE
#ifndef ASSEMBLED
#define MULTIPLIER 1  // results for each channel of X
#undef IN_CHANNELS  // channels of X, given if MULTIPLIER > 1
#endif
#include "lib/index.glsl"
#include "lib/runs.glsl"
#include "lib/weights.glsl"

// The including shader may choose an input for D.
#ifndef D_INPUT
#define D_INPUT WEIGHT_INPUT
#endif
INPUT0(X)
D_INPUT(D)

// The input texel that feeds the channels of a slice.
vec4 input_of(int slice, int pixel, int in_pixels) {
#if MULTIPLIER == 1
  return LOAD_OR_ZERO(X, slice * in_pixels + pixel);
#else
  vec4 v;
  for (int lane = 0; lane < 4; ++lane) {
    int channel = min((4 * slice + lane) / MULTIPLIER, IN_CHANNELS - 1);
    v[lane] = LOAD_OR_ZERO(X, texel_of(channel, pixel, in_pixels))[channel % 4];
  }
  return v;
#endif
}

// The run's results for one of `slices` slices; X has `in_pixels` pixels.
void convolve(out vec4 sum[PIXELS], Run run, int slice, int slices, int in_pixels) {
  vec4 bias = LOAD_WEIGHT(D, weight_place(slice), 0);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[p] = bias;
  int tap = slices + slice * (KERNEL_H * KERNEL_W);
#pragma unroll(gpu)
  for (int ky = 0; ky < KERNEL_H; ++ky) {
    int line = run_line(run, ky);
#if BY_TAPS
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      vec4 weight = LOAD_WEIGHT(D, weight_place(tap), 0);
      ++tap;
#pragma unroll
      for (int p = 0; p < PIXELS; ++p)
        sum[p] += input_of(slice, run_input(line, run_column(run, p, kx)), in_pixels) * weight;
    }
#else
    vec4 v[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
      v[c] = input_of(slice, run_input(line, run.column[c]), in_pixels);
#pragma unroll
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      vec4 weight = LOAD_WEIGHT(D, weight_place(tap), 0);
      ++tap;
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) sum[p] += v[p * STRIDE_W + kx] * weight;
    }
#endif
  }
}
#endif
