#version 310 es
#extension GL_GOOGLE_include_directive : require

// SUM, REDUCE_MAX ...: COMBINEs the elements of the reduced dimensions one after the other.
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
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
// What LiteRT's comparison leaves of a NaN, on either side, is b; compilers make it max and min.
#define LARGEST(a, b) ((a) != (a) || (b) != (b) ? (b) : max(a, b))
#define SMALLEST(a, b) ((a) != (a) || (b) != (b) ? (b) : min(a, b))

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int start = element_at(coordinates_of(pixel, SIZES), STRIDES) + slice * IN_PIXELS;
  OUT_VEC result = OUT_VEC(INITIAL);
#pragma unroll(gpu)
  for (int i = 0; i < REDUCED; ++i) {
    int texel = start + element_at(coordinates_of(i, REDUCED_SIZES), REDUCED_STRIDES);
#if REDUCE_CHANNELS
    for (int channel = 0; channel < IN_CHANNELS; channel += 4) {
      OUT_VEC v = LOAD(X, texel_of(channel, texel, IN_PIXELS));
      for (int lane = 0; lane < 4; ++lane)
        if (channel + lane < IN_CHANNELS) result.x = COMBINE(result.x, v[lane]);
    }
#else
    OUT_VEC v = LOAD(X, texel);
    for (int lane = 0; lane < 4; ++lane) result[lane] = COMBINE(result[lane], v[lane]);
#endif
  }
  store(slice, pixel, result / OUT_VEC(DIVISOR));
}
