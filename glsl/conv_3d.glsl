#version 310 es
#extension GL_GOOGLE_include_directive : require

// CONV_3D: Y[o] = bias[o] + sum over taps and i of W[tap][i][o] * X[i] at the tap; or
// CONV_3D_TRANSPOSE, in which each input pixel is spread to the taps.
//
// An invocation computes a run of PIXELS pixels of a row. W: of each output slice the biases; then of
// each tap, each input slice and each of its channels, the weights of all output slices.
#ifndef ASSEMBLED
#define TRANSPOSED 0
#define PIXELS 4
#define RUNS 2  // of a row
#define IN_SLICES 2
#define BATCH 3
#define IN_SIZES int[3](4, 5, 6)  // depth, height and width
#define OUT_SIZES int[3](4, 5, 6)
#define KERNEL int[3](3, 3, 3)
#define STRIDES int[3](1, 1, 1)
#define PADDING int[3](1, 1, 1)  // in front
#define DILATION int[3](1, 1, 1)
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(W)

// The input's coordinate at a tap of an output's coordinate, along an axis; negative outside.
int input_at(int axis, int at, int tap) {
  const int in_sizes[3] = IN_SIZES, strides[3] = STRIDES, padding[3] = PADDING;
  const int dilation[3] = DILATION;
#if TRANSPOSED
  int place = at + padding[axis] - tap * dilation[axis];
  int index = place >= 0 && place % strides[axis] == 0 ? place / strides[axis] : -1;
#else
  int index = at * strides[axis] - padding[axis] + tap * dilation[axis];
#endif
  return index >= 0 && index < in_sizes[axis] ? index : -1;
}

void main() {
  const int in_sizes[3] = IN_SIZES, out_sizes[3] = OUT_SIZES, kernel[3] = KERNEL;
  int run = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  int x = run % RUNS * PIXELS, line = run / RUNS, y = line % out_sizes[1];
  int z = line / out_sizes[1] % out_sizes[0], batch = line / (out_sizes[1] * out_sizes[0]);
  if (batch >= BATCH || slice >= OUT_SLICES) return;
  const int in_pixels = BATCH * in_sizes[0] * in_sizes[1] * in_sizes[2];
  vec4 sum[PIXELS], bias = LOAD(W, slice);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[p] = bias;
  for (int tap = 0; tap < kernel[0] * kernel[1] * kernel[2]; ++tap) {
    int in_z = input_at(0, z, tap / (kernel[1] * kernel[2]));
    int in_y = input_at(1, y, tap / kernel[2] % kernel[1]);
    int row = ((batch * in_sizes[0] + in_z) * in_sizes[1] + in_y) * in_sizes[2];
    int slices = in_z >= 0 && in_y >= 0 ? IN_SLICES : 0;
    int w = (1 + 4 * tap * IN_SLICES) * OUT_SLICES + slice;
    int at[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      int in_x = input_at(2, x + p, tap % kernel[2]);
      at[p] = in_x >= 0 ? row + in_x : OUTSIDE;
    }
    for (int k = 0; k < slices; ++k) {
      mat4 m = mat4(LOAD(W, w), LOAD(W, w + OUT_SLICES), LOAD(W, w + 2 * OUT_SLICES),
                    LOAD(W, w + 3 * OUT_SLICES));
      w += 4 * OUT_SLICES;
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) sum[p] += m * LOAD_OR_ZERO(X, k * in_pixels + at[p]);
    }
  }
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
    if (x + p < out_sizes[2]) store(slice, line * out_sizes[2] + x + p, sum[p]);
}
