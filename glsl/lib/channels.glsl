// Reductions over the channels of a pixel, which its REDUCTION_LANES invocations share.
#ifndef LIB_CHANNELS
#define LIB_CHANNELS
#define JOINED float
#include "lib/shared.glsl"

const float LOWEST_FLOAT = -3.402823466e38;

// A texel with `fill` in the lanes past the last channel.
vec4 masked(int slice, vec4 v, float fill) {
  return OUT_CHANNELS % 4 == 0 ? v : mix(vec4(fill), v, lanes_below(OUT_CHANNELS - 4 * slice));
}

// The sum of the lanes of `v` in all invocations of the pixel.
float sum_of(vec4 v) {
  float sum = v.x + v.y + v.z + v.w;
  JOIN(sum, SUM);
  return sum;
}
#endif
