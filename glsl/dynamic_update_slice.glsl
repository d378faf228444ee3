#version 310 es
#extension GL_GOOGLE_include_directive : require

// DYNAMIC_UPDATE_SLICE: X, with UPDATE in place of its elements from STARTS on, which are moved so
// that all of it fits in.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define SIZES int[2](60, 7)  // of X
#define UPDATE_SIZES int[2](2, 3)
#define UPDATE_STRIDES int[2](3, 1)
#define UPDATE_CHANNELS 3  // channels of UPDATE
#define UPDATE_PIXELS 2  // pixels of UPDATE
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(X)
INPUT1(STARTS)
INPUT2(UPDATE)

void main() {
  const int sizes[DIMS] = SIZES, update_sizes[DIMS] = UPDATE_SIZES;
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC v = LOAD(X, slice * OUT_PIXELS + pixel);
  for (int lane = 0; lane < 4 && 4 * slice + lane < OUT_CHANNELS; ++lane) {
    int at[DIMS] = coordinates_of(pixel * OUT_CHANNELS + 4 * slice + lane, SIZES);
    bool inside = true;
#pragma unroll
    for (int d = 0; d < DIMS; ++d) {
      at[d] -= clamp(LOAD(STARTS, d / 4)[d % 4], 0, sizes[d] - update_sizes[d]);
      inside = inside && at[d] >= 0 && at[d] < update_sizes[d];
    }
    int element = element_at(at, UPDATE_STRIDES);
    if (inside) v[lane] = LOAD_ELEMENT(UPDATE, element, UPDATE_CHANNELS, UPDATE_PIXELS);
  }
  store(slice, pixel, v);
}
