// MEAN: combines the elements of the reduced dimensions; FINISH scales the result.
//
// A pixel of the output has coordinates in SIZES; its inputs start at the sum of coordinate *
// STRIDES and lie at the sum of counter * REDUCED_STRIDES over all counters in REDUCED_SIZES.
#include "lib/tensor.glsl"

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
  vec4 sum = vec4(0.0);
  for (int s = 0; s < REDUCED_SLICES; ++s)
    for (int i = 0; i < REDUCED; ++i)
      sum += LOAD(X, start + s * IN_PIXELS + step_of(i));
#if REDUCE_CHANNELS
  sum = vec4(sum.x + sum.y + sum.z + sum.w);
#endif
  store(slice, pixel, sum * FINISH);
}
