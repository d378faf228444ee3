#version 310 es
#extension GL_GOOGLE_include_directive : require

// The AVERAGE, MAXIMUM or ROOT_MEAN_SQUARE of the inputs in a window, where padding does not count,
// or the ARGUMENT: the place of the first maximum there; with it, edges repeat into the padding.
#ifndef ASSEMBLED
#define POOLING AVERAGE  // or MAXIMUM, ROOT_MEAN_SQUARE or ARGUMENT
#define BATCH 1  // images
#define IN_H 20  // rows of X
#define IN_W 12  // columns of X
#define OUT_H 10  // rows of the output
#define OUT_W 6  // columns of the output
#define FILTER_H 2  // rows of the window
#define FILTER_W 2  // columns of the window
#define STRIDE_H 2  // input rows from one output to the next
#define STRIDE_W 2  // input columns from one output to the next
#define PAD_H 0  // padding above X
#define PAD_W 0  // padding to its left
#endif
#include "lib/tensor.glsl"

#define AVERAGE 0
#define MAXIMUM 1
#define ARGUMENT 2
#define ROOT_MEAN_SQUARE 3
#define IS_MEAN (POOLING == AVERAGE || POOLING == ROOT_MEAN_SQUARE)

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int left = pixel % OUT_W * STRIDE_W - PAD_W;
  int top = pixel / OUT_W % OUT_H * STRIDE_H - PAD_H;
  int image = (slice * BATCH + pixel / (OUT_W * OUT_H)) * IN_H;
  int x0 = max(left, 0), x1 = min(left + FILTER_W, IN_W);
  int y0 = max(top, 0), y1 = min(top + FILTER_H, IN_H);
#if IS_MEAN
  vec4 result = vec4(0.0);
#else
  vec4 result = vec4(-3.402823466e38);
#endif
#if POOLING == ARGUMENT
  vec4 place = vec4(0.0);
#endif
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      vec4 v = LOAD(X, (image + y) * IN_W + x);
#if POOLING == ROOT_MEAN_SQUARE
      v *= v;
#endif
#if IS_MEAN
      result += v;
#else
#if POOLING == ARGUMENT
      int row = y == y0 ? 0 : y - top, column = x == x0 ? 0 : x - left;
      place = mix(place, vec4(row * FILTER_W + column), greaterThan(v, result));
#endif
      result = max(result, v);
#endif
    }
  }
#if IS_MEAN
  result /= float((x1 - x0) * (y1 - y0));
#endif
#if POOLING == ROOT_MEAN_SQUARE
  result = sqrt(result);
#endif
#if POOLING == ARGUMENT
  result = place;
#endif
  store(slice, pixel, result);
}
