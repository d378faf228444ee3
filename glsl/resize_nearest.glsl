#version 310 es
#extension GL_GOOGLE_include_directive : require

// RESIZE_NEAREST_NEIGHBOR.
#ifndef ASSEMBLED
#define BATCH 1  // images
#define IN_H 5  // rows of X
#define IN_W 3  // columns of X
#define OUT_H 10  // rows of the output
#define OUT_W 6  // columns of the output
#define SCALE_H 0.5  // input rows from one output to the next
#define SCALE_W 0.5  // input columns from one output to the next
#define FIXED_POINT 0  // 1: a tensor of bytes, for which LiteRT counts in 1/65536
#define FIXED_SCALE_H 32769  // SCALE_H in 1/65536
#define FIXED_SCALE_W 32769  // SCALE_W in 1/65536
#define ROUNDED 0  // 1: rounded to the nearest position; 0: down
#define HALF_PIXEL_CENTERS 0  // 1: positions are the pixels' centers
#endif
#include "lib/tensor.glsl"

INPUT0(X)

int nearest_to(int position, float scale, int fixed_scale, int size) {
#if FIXED_POINT
  return min(position * fixed_scale >> 16, size - 1);
#else
  float at = (float(position) + (HALF_PIXEL_CENTERS == 1 ? 0.5 : 0.0)) * scale;
  int below = int(floor(at));
#if ROUNDED
  if (at - floor(at) >= 0.5) ++below;
#endif
  return min(below, size - 1);
#endif
}

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int x = nearest_to(pixel % OUT_W, SCALE_W, FIXED_SCALE_W, IN_W);
  int y = nearest_to(pixel / OUT_W % OUT_H, SCALE_H, FIXED_SCALE_H, IN_H);
  int image = slice * BATCH + pixel / (OUT_W * OUT_H);
  store(slice, pixel, LOAD(X, (image * IN_H + y) * IN_W + x));
}
