// SUM, REDUCE_MAX ...: COMBINEs the elements of the reduced dimensions one after the other.
//
// A pixel of the output has coordinates in SIZES; its inputs start at the sum of coordinate *
// STRIDES and lie at the sum of counter * REDUCED_STRIDES over all counters in REDUCED_SIZES.
// If REDUCE_CHANNELS, all IN_CHANNELS of them become one.
#include "lib/tensor.glsl"

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
// What LiteRT's comparison leaves of a NaN, on either side, is b; compilers make it max and min.
#define LARGEST(a, b) ((a) != (a) || (b) != (b) ? (b) : max(a, b))
#define SMALLEST(a, b) ((a) != (a) || (b) != (b) ? (b) : min(a, b))

INPUT0(X)

int start_of(int index) {
  const int sizes[DIMS] = SIZES, strides[DIMS] = STRIDES;
  int position = 0;
  for (int d = DIMS - 1; d >= 0; --d) {
    position += index % sizes[d] * strides[d];
    index /= sizes[d];
  }
  return position;
}

int step_of(int index) {
  const int sizes[REDUCED_DIMS] = REDUCED_SIZES, strides[REDUCED_DIMS] = REDUCED_STRIDES;
  int position = 0;
  for (int d = REDUCED_DIMS - 1; d >= 0; --d) {
    position += index % sizes[d] * strides[d];
    index /= sizes[d];
  }
  return position;
}

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int start = start_of(pixel) + slice * IN_PIXELS;
  OUT_VEC result = OUT_VEC(INITIAL);
#pragma unroll(gpu)
  for (int i = 0; i < REDUCED; ++i) {
    int texel = start + step_of(i);
#if REDUCE_CHANNELS
    for (int channel = 0; channel < IN_CHANNELS; channel += 4) {
      OUT_VEC v = LOAD(X, texel + channel / 4 * IN_PIXELS);
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
