#version 310 es
#extension GL_GOOGLE_include_directive : require

// SUM, REDUCE_MAX ...: COMBINEs the elements of the reduced dimensions one after the other, or in
// REDUCTION_LANES parts: of the channels if REDUCE_CHANNELS, else of the pixels.
//
// A pixel of the output has coordinates in SIZES; its inputs start at the sum of coordinate *
// STRIDES and lie at the sum of counter * REDUCED_STRIDES over all counters in REDUCED_SIZES.
#ifndef ASSEMBLED
#define COMBINE SUM  // or PRODUCT, LARGEST or SMALLEST
#define INITIAL 0  // what COMBINE starts from
#define DIVISOR 1  // of the result; the number of elements for a mean
#define IN_PIXELS 300  // pixels of X
#define SIZES int[2](60, 1)
#define STRIDES int[2](5, 0)
#define REDUCED 5  // the product of REDUCED_SIZES
#define REDUCED_SIZES int[2](1, 5)
#define REDUCED_STRIDES int[2](0, 1)
#define REDUCE_CHANNELS 0  // 1: all channels become one
#undef IN_CHANNELS  // channels of X, given if REDUCE_CHANNELS
#define SQUARES 0  // 1: of the squares of X less M; not with REDUCE_CHANNELS
#undef M_PIXELS  // pixels of M, and
#undef M_SHARE  // the pixels of X in a row that each belongs to, given if SQUARES
#endif
#include "lib/index.glsl"
#include "lib/shared.glsl"

#define PRODUCT(a, b) ((a) * (b))
// What LiteRT's comparison leaves of a NaN, on either side, is b; compilers make it max and min.
#define LARGEST(a, b) ((a) != (a) || (b) != (b) ? (b) : max(a, b))
#define SMALLEST(a, b) ((a) != (a) || (b) != (b) ? (b) : min(a, b))

INPUT0(X)
#if SQUARES
INPUT1(M)
#endif

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
#if REDUCTION_LANES == 1
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
#else
  bool stores = REDUCTION_LANE == 0 && pixel < OUT_PIXELS && slice < OUT_SLICES;
  pixel = min(pixel, OUT_PIXELS - 1);
  slice = min(slice, OUT_SLICES - 1);
#endif
  int start = element_at(coordinates_of(pixel, SIZES), STRIDES) + slice * IN_PIXELS;
  OUT_VEC result = OUT_VEC(INITIAL);
#if REDUCE_CHANNELS
  for (int i = 0; i < REDUCED; ++i) {
    int texel = start + element_at(coordinates_of(i, REDUCED_SIZES), REDUCED_STRIDES);
    for (int channel = 4 * REDUCTION_LANE; channel < IN_CHANNELS; channel += 4 * REDUCTION_LANES) {
      OUT_VEC v = LOAD(X, texel_of(channel, texel, IN_PIXELS));
      for (int lane = 0; lane < 4; ++lane)
        if (channel + lane < IN_CHANNELS) result.x = COMBINE(result.x, v[lane]);
    }
  }
#else
#if SQUARES
  vec4 less = LOAD(M, slice * M_PIXELS + DIVIDED(start - slice * IN_PIXELS, M_SHARE));
#endif
  for (int i = REDUCTION_LANE; i < REDUCED; i += REDUCTION_LANES) {
    int texel = start + element_at(coordinates_of(i, REDUCED_SIZES), REDUCED_STRIDES);
    OUT_VEC v = LOAD(X, texel);
#if SQUARES
    v = (v - less) * (v - less);
#endif
    for (int lane = 0; lane < 4; ++lane) result[lane] = COMBINE(result[lane], v[lane]);
  }
#endif
  JOIN(result, COMBINE);
#if REDUCTION_LANES > 1
  if (!stores) return;
#endif
  store(slice, pixel, result / OUT_VEC(DIVISOR));
}
