#version 310 es
#extension GL_GOOGLE_include_directive : require

// SCATTER_ND, SPARSE_TO_DENSE, segments: an output pixel COMBINEs the input's pixels that go there.
//
// Pixel n of the input goes to pixel sum of index * AXIS_STRIDES, by DEPTH indices that follow each
// other from element n * DEPTH on; nowhere if one is outside AXIS_SIZES. If SORTED, INDICES has the
// position of each output pixel's first input pixel, the end, and from there on the input pixels.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define COMBINE SUM  // or PRODUCT, LARGEST, SMALLEST or LATER
#define INITIAL 0  // what COMBINE starts from
#define COUNT 20  // pixels of X
#define INDEX_CHANNELS 2  // channels of INDICES
#define INDEX_PIXELS 20  // pixels of INDICES
#define SORTED 0
#define DEPTH 2
#define AXIS_SIZES int[2](4, 5)
#define AXIS_STRIDES int[2](5, 1)
#endif
#include "lib/shared.glsl"
#include "lib/index.glsl"

#define LATER(a, b) (b)
#define PRODUCT(a, b) ((a) * (b))
// What LiteRT's comparison leaves of a NaN in the input is what was there before.
#define LARGEST(a, b) ((b) != (b) ? (a) : max(a, b))
#define SMALLEST(a, b) ((b) != (b) ? (a) : min(a, b))

INPUT0(X)
INPUT1(INDICES)

#define INTEGER(n) LOAD(INDICES, (n) / 4)[(n) % 4]

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC result = OUT_VEC(INITIAL);
#if SORTED
  int end = INTEGER(pixel + 1);
  for (int i = INTEGER(pixel); i < end; ++i) {
    int n = INTEGER(OUT_PIXELS + 1 + i);
    bool comes = true;
#else
  const int axis_sizes[DEPTH] = AXIS_SIZES, axis_strides[DEPTH] = AXIS_STRIDES;
  for (int n = 0; n < COUNT; ++n) {
    int to = 0;
    bool comes = true;
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      int index = LOAD_ELEMENT(INDICES, n * DEPTH + d, INDEX_CHANNELS, INDEX_PIXELS);
      comes = comes && index >= 0 && index < axis_sizes[d];
      to += index * axis_strides[d];
    }
    comes = comes && to == pixel;
#endif
    if (comes) {
      OUT_VEC v = LOAD(X, slice * COUNT + n);
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) result[lane] = COMBINE(result[lane], v[lane]);
    }
  }
  store(slice, pixel, result);
}
