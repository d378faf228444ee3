// Reductions over the channels of a pixel, by the SLICE_LANES invocations of its work group: each
// takes the slices SLICE_LANE, SLICE_LANE + SLICE_LANES ...
#ifndef LIB_CHANNELS
#define LIB_CHANNELS
#include "lib/tensor.glsl"

const float LOWEST_FLOAT = -3.402823466e38;

// A texel with `fill` in the lanes past the last channel.
vec4 masked(int slice, vec4 v, float fill) {
#if OUT_CHANNELS % 4 == 0
  return v;
#else
  return mix(vec4(fill), v, lanes_below(OUT_CHANNELS - 4 * slice));
#endif
}

#if SLICE_LANES > 1
shared float of_lane[SLICE_LANES];

void share(float v) {
  barrier();  // the last reduction has been read
  of_lane[SLICE_LANE] = v;
  barrier();
}
#endif

// The largest lane of `v` in all invocations of the work group.
float highest_of(vec4 v) {
  float highest = max(max(v.x, v.y), max(v.z, v.w));
#if SLICE_LANES > 1
  share(highest);
#pragma unroll(gpu)
  for (int i = 0; i < SLICE_LANES; ++i) highest = max(highest, of_lane[i]);
#endif
  return highest;
}

// The sum of the lanes of `v` in all invocations of the work group.
float sum_of(vec4 v) {
  float sum = v.x + v.y + v.z + v.w;
#if SLICE_LANES > 1
  share(sum);
  sum = 0.0;
#pragma unroll(gpu)
  for (int i = 0; i < SLICE_LANES; ++i) sum += of_lane[i];
#endif
  return sum;
}
#endif
