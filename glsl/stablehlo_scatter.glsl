#version 310 es
#extension GL_GOOGLE_include_directive : require

// STABLEHLO_SCATTER: X, COMBINEd with windows of UPDATES, which begin where INDICES say.
//
// Window n begins at index INDEX_OF of its DEPTH ones along each dimension, or at 0 if that is -1.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define COMBINE SUM  // or PRODUCT, LARGEST, SMALLEST or LATER
#define COUNT 4  // windows
#define SIZES int[2](60, 7)  // of X
#define INDEX_OF int[2](0, -1)
#define DEPTH 1
#define INDEX_CHANNELS 1  // channels of INDICES
#define INDEX_PIXELS 4  // pixels of INDICES
#define WINDOW 14  // elements of a window
#define WINDOW_SIZES int[2](2, 7)
#define WINDOW_STRIDES int[2](7, 1)
#define UPDATE_CHANNELS 7  // channels of UPDATES
#define UPDATE_PIXELS 8  // pixels of UPDATES
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define LATER(a, b) (b)

// Compilers make max and min of comparisons, which may lose a NaN in `a`.
#define LARGEST(a, b) ((a) != (a) || (b) != (b) || !((a) < (b)) ? (a) : (b))
#define SMALLEST(a, b) ((a) != (a) || (b) != (b) || !((b) < (a)) ? (a) : (b))

INPUT0(X)
INPUT1(INDICES)
INPUT2(UPDATES)

void main() {
  const int index_of[DIMS] = INDEX_OF, sizes[DIMS] = WINDOW_SIZES, strides[DIMS] = WINDOW_STRIDES;
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC v = LOAD(X, slice * OUT_PIXELS + pixel);
  for (int lane = 0; lane < 4 && 4 * slice + lane < OUT_CHANNELS; ++lane) {
    int at[DIMS] = coordinates_of(pixel * OUT_CHANNELS + 4 * slice + lane, SIZES);
    for (int n = 0; n < COUNT; ++n) {
      int element = n * WINDOW;
      bool inside = true;
#pragma unroll
      for (int d = 0; d < DIMS; ++d) {
        int from = at[d], number = n * DEPTH + index_of[d];
        if (index_of[d] >= 0) from -= LOAD_ELEMENT(INDICES, number, INDEX_CHANNELS, INDEX_PIXELS);
        inside = inside && from >= 0 && from < sizes[d];
        element += from * strides[d];
      }
      if (inside)
        v[lane] = COMBINE(v[lane], LOAD_ELEMENT(UPDATES, element, UPDATE_CHANNELS, UPDATE_PIXELS));
    }
  }
  store(slice, pixel, v);
}
