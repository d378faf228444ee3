#version 310 es
#extension GL_GOOGLE_include_directive : require

// MaxUnpooling2D: each value at the place in its window that its index names, zero elsewhere.
#ifndef ASSEMBLED
#define IN_PIXELS 15  // pixels of VALUES
#define IN_H 5  // rows of VALUES
#define IN_W 3  // columns of VALUES
#define OUT_H 10  // rows of the output
#define OUT_W 6  // columns of the output
#define FILTER_H 2  // rows of the window
#define FILTER_W 2  // columns of the window
#endif
#include "lib/tensor.glsl"

INPUT0(VALUES)
INPUT1(INDICES)

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int x = pixel % OUT_W, y = pixel / OUT_W % OUT_H;
  int window = pixel / (OUT_W * OUT_H) * (IN_W * IN_H) + y / FILTER_H * IN_W + x / FILTER_W;
  int texel = slice * IN_PIXELS + window;
  vec4 place = vec4(y % FILTER_H * FILTER_W + x % FILTER_W);
  store(slice, pixel, mix(vec4(0.0), LOAD(VALUES, texel), equal(LOAD(INDICES, texel), place)));
}
