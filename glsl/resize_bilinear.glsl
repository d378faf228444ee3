#version 310 es
#extension GL_GOOGLE_include_directive : require

// RESIZE_BILINEAR.
#ifndef ASSEMBLED
#define BATCH 1  // images
#define IN_H 5  // rows of X
#define IN_W 3  // columns of X
#define OUT_H 10  // rows of the output
#define OUT_W 6  // columns of the output
#define SCALE_H 0.5  // input rows from one output to the next
#define SCALE_W 0.5  // input columns from one output to the next
#define HALF_PIXEL_CENTERS 0  // 1: positions are the pixels' centers
#endif
#include "lib/tensor.glsl"

INPUT0(X)

// The two input positions beside an output position, and the weight of the second.
void neighbours(int position, float scale, int size, out int lower, out int upper,
                out float weight) {
#if HALF_PIXEL_CENTERS
  float at = (float(position) + 0.5) * scale - 0.5;
#else
  float at = float(position) * scale;
#endif
  lower = max(int(floor(at)), 0);
  upper = min(int(ceil(at)), size - 1);
  weight = at - float(lower);
}

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int x0, x1, y0, y1;
  float wx, wy;
  neighbours(pixel % OUT_W, SCALE_W, IN_W, x0, x1, wx);
  neighbours(pixel / OUT_W % OUT_H, SCALE_H, IN_H, y0, y1, wy);
  int image = (slice * BATCH + pixel / (OUT_W * OUT_H)) * IN_H;
  int top = (image + y0) * IN_W, bottom = (image + y1) * IN_W;
  store(slice, pixel,
        LOAD(X, top + x0) * (1.0 - wy) * (1.0 - wx) + LOAD(X, bottom + x0) * wy * (1.0 - wx) +
            LOAD(X, top + x1) * (1.0 - wy) * wx + LOAD(X, bottom + x1) * wy * wx);
}
