#version 310 es
#extension GL_GOOGLE_include_directive : require

// STABLEHLO_REDUCE_WINDOW: the elements of X under a window, COMBINEd with INITIAL one after another.
//
// Along each dimension, the window at coordinate o has WINDOW elements DILATIONS apart, from o *
// STRIDES - LOW on. Between the elements of X lie BASE - 1 that are INITIAL, as are those outside. The
// last dimension is that of the channels if CHANNELS; if not, no window extends along these.
#ifndef ASSEMBLED
#define COMBINE SUM  // or PRODUCT, LARGEST or SMALLEST
#define CHANNELS 0
#define COUNT 6  // elements of a window
#define SIZES int[2](9, 10)  // of the output
#define IN_SIZES int[2](9, 10)
#define WINDOW int[2](2, 3)
#define STRIDES int[2](1, 1)
#define DILATIONS int[2](1, 1)
#define BASE int[2](1, 1)
#define LOW int[2](0, 1)
#define X_STRIDES int[2](10, 1)  // pixels or, if CHANNELS, elements of X
#define IN_PIXELS 90  // pixels of X
#define IN_CHANNELS 7  // channels of X
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
// LiteRT's comparisons: of a NaN, on either side, b is left, of zeros of two signs a.
#define LARGEST(a, b) ((a) != (a) || (b) != (b) || (a) < (b) ? (b) : (a))
#define SMALLEST(a, b) ((a) != (a) || (b) != (b) || (b) < (a) ? (b) : (a))

INPUT0(X)
INPUT1(INITIAL)

// The place in X of a window's element number `n`, negative if that is INITIAL.
int place(int at[DIMS], int n) {
  const int sizes[DIMS] = IN_SIZES, strides[DIMS] = STRIDES, dilations[DIMS] = DILATIONS;
  const int base[DIMS] = BASE, low[DIMS] = LOW, x_strides[DIMS] = X_STRIDES;
  int step[DIMS] = coordinates_of(n, WINDOW), sum = 0;
  bool inside = true;
#pragma unroll
  for (int d = 0; d < DIMS; ++d) {
    int from = at[d] * strides[d] + step[d] * dilations[d] - low[d];
    inside = inside && from >= 0 && from % base[d] == 0 && from / base[d] < sizes[d];
    sum += from / base[d] * x_strides[d];
  }
  return inside ? sum : -1;
}

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC initial = OUT_VEC(LOAD(INITIAL, 0).x), v = initial;
#if CHANNELS
  for (int lane = 0; lane < 4 && 4 * slice + lane < OUT_CHANNELS; ++lane) {
    int at[DIMS] = coordinates_of(pixel * OUT_CHANNELS + 4 * slice + lane, SIZES);
    for (int n = 0; n < COUNT; ++n) {
      OUT_VEC x = initial;
      int element = place(at, n);
      if (element >= 0) x.x = LOAD_ELEMENT(X, element, IN_CHANNELS, IN_PIXELS);
      v[lane] = COMBINE(v[lane], x.x);
    }
  }
#else
  int at[DIMS] = coordinates_of(pixel, SIZES);
  for (int n = 0; n < COUNT; ++n) {
    OUT_VEC x = initial;
    int from = place(at, n);
    if (from >= 0) x = LOAD(X, slice * IN_PIXELS + from);
    for (int lane = 0; lane < 4; ++lane) v[lane] = COMBINE(v[lane], x[lane]);
  }
#endif
  store(slice, pixel, v);
}
