#version 310 es
#extension GL_GOOGLE_include_directive : require

// SOFTMAX over the channels of a pixel: exp(BETA * (x - max)) / sum; LOG_SOFTMAX: its logarithm.
#ifndef ASSEMBLED
#define LOGARITHM 0  // 1: LOG_SOFTMAX
#define ONE_BLOCK 1  // 1: each invocation has one block
#define PARTS 1  // of a row, each of which has a work group; if several, softmax_part.glsl adds up
#define PART 2  // slices of a part
#endif
#include "lib/tensor.glsl"
#include "lib/softmax.glsl"

#if PARTS > 1
INPUT1(SUMS)
#endif

vec4 result(vec4 power, float sum) {
#if LOGARITHM
  return power - log(sum);
#else
  return exp(power) / sum;
#endif
}

void main() {
#if PARTS > 1
  int part = PIXEL_INVOCATION / IN_PIXELS, pixel = PIXEL_INVOCATION - part * IN_PIXELS;
  int first = part * PART + REDUCTION_LANE, end = min((part + 1) * PART, OUT_SLICES);
  float highest = LOWEST_FLOAT, sum = 0.0;
  for (int i = 0; i < PARTS; ++i) {
    ivec4 bits = LOAD(SUMS, i * IN_PIXELS + pixel);
    float of_part = intBitsToFloat(bits.x), before = highest;
    highest = max(highest, of_part);
    sum = rescaled(sum, before, highest) + rescaled(intBitsToFloat(bits.y), of_part, highest);
  }
#else
  int pixel = PIXEL_INVOCATION, first = REDUCTION_LANE, end = OUT_SLICES;
#if REDUCTION_LANES == 1
  if (pixel >= OUT_PIXELS) return;
#endif
#if ONE_BLOCK
  float highest = read_block(first, pixel, LOWEST_FLOAT);
  JOIN(highest, max);
  float sum = sum_of_block(first, highest);
  JOIN(sum, SUM);
#else
  float highest, sum;
  add_up(0, OUT_SLICES, pixel, highest, sum);
#endif
#endif
#if ONE_BLOCK
#pragma unroll
  for (int i = 0; i < BLOCK; ++i) {
    int s = slice_of(i, first);
    if (s < end) store(s, pixel, result(block[i], sum));
  }
#else
  for (int s = first; s < end; s += REDUCTION_LANES)
    store(s, pixel, result(power_of(LOAD(X, s * IN_PIXELS + pixel), highest), sum));
#endif
}
