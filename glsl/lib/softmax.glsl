// Blocks of BLOCK texels of a row of SOFTMAX, whose REDUCTION_LANES invocations take turns, and sums
// of exponentials: exp(BETA * (x - highest)) for the highest so far.
#ifndef LIB_SOFTMAX
#define LIB_SOFTMAX
#ifndef ASSEMBLED
#define BETA 1.0
#define BLOCK 2  // texels that an invocation reads at once
#define EVEN 0  // 1: blocks and lanes divide the channels
#define IN_CHANNELS 7
#define IN_PIXELS 60
#endif
#include "lib/channels.glsl"

#define IN_SLICES ((IN_CHANNELS + 3) / 4)

INPUT0(X)

vec4 block[BLOCK];

// The slice of a texel of the block that begins at slice `first`.
int slice_of(int i, int first) { return first + i * REDUCTION_LANES; }

// A texel with `fill` in the lanes past the row's end.
vec4 inside(int slice, vec4 v, float fill) {
#if EVEN
  return v;
#else
  return mix(vec4(fill), v, lanes_below(IN_CHANNELS - 4 * slice));
#endif
}

vec4 power_of(vec4 x, float highest) { return (x - highest) * BETA; }

// Reads a block; returns its highest lane, or `least`.
float read_block(int first, int pixel, float least) {
  vec4 v = vec4(least);
#pragma unroll
  for (int i = 0; i < BLOCK; ++i) {
    int slice = slice_of(i, first);
#if EVEN
    block[i] = LOAD(X, slice * IN_PIXELS + pixel);
#else
    block[i] = LOAD(X, min(slice, IN_SLICES - 1) * IN_PIXELS + pixel);
#endif
    v = max(v, inside(slice, block[i], least));
  }
  return max(max(v.x, v.y), max(v.z, v.w));
}

// Replaces the block by its powers; returns the sum of their exponentials.
float sum_of_block(int first, float highest) {
  vec4 v = vec4(0.0);
#pragma unroll
  for (int i = 0; i < BLOCK; ++i) {
    block[i] = power_of(block[i], highest);
    v += inside(slice_of(i, first), exp(block[i]), 0.0);
  }
  return v.x + v.y + v.z + v.w;
}

// A sum for another highest element. A sum of nothing stays 0, whatever the power.
float rescaled(float sum, float before, float highest) {
  return sum == 0.0 ? 0.0 : sum * exp((before - highest) * BETA);
}

// The highest element of the slices from `first` to before `end`, and their sum, of all lanes.
void add_up(int first, int end, int pixel, out float highest, out float sum) {
  highest = LOWEST_FLOAT;
  sum = 0.0;
  for (int s = first + REDUCTION_LANE; s < end; s += BLOCK * REDUCTION_LANES) {
    float before = highest;
    highest = read_block(s, pixel, highest);
    sum = rescaled(sum, before, highest) + sum_of_block(s, highest);
  }
  float own = highest;
  JOIN(highest, max);
  sum = rescaled(sum, own, highest);
  JOIN(sum, SUM);
}
#endif
