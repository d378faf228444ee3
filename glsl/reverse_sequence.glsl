#version 310 es
#extension GL_GOOGLE_include_directive : require

// REVERSE_SEQUENCE: for each coordinate along one axis, the first elements along another are
// reversed; LENGTHS has their numbers.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define LENGTH 10  // elements of the axis that is reversed
#define STRIDE 42  // elements from one to the next
#define BATCH 6  // elements of the axis that LENGTHS belongs to
#define BATCH_STRIDE 7  // elements from one to the next
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(X)
INPUT1(LENGTHS)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC v = OUT_VEC(0);
  for (int lane = 0; lane < 4 && 4 * slice + lane < OUT_CHANNELS; ++lane) {
    int element = pixel * OUT_CHANNELS + 4 * slice + lane;
    int at = element / STRIDE % LENGTH, batch = element / BATCH_STRIDE % BATCH;
    int last = min(LOAD(LENGTHS, batch / 4)[batch % 4], LENGTH) - 1;
    if (at <= last) element += (last - 2 * at) * STRIDE;
    v[lane] = LOAD_ELEMENT(X, element, OUT_CHANNELS, OUT_PIXELS);
  }
  store(slice, pixel, v);
}
