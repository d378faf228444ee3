#version 310 es
#extension GL_GOOGLE_include_directive : require

// The channels of GROUP pixels in a row, less their mean, times FACTOR / sqrt(sum of squares /
// DIVISOR + EPSILON).
#ifndef ASSEMBLED
#define GROUPED 0  // 1: several pixels share a mean and a sum
#define GROUP 1  // their number
#define CENTERED 1  // 0: nothing is subtracted
#define DIVISOR 7.0
#define EPSILON 1e-5
#define LARGER 0  // 1: of the sum and EPSILON, the larger one is taken
#define FACTOR 1.0
#endif
#include "lib/index.glsl"
#include "lib/channels.glsl"

INPUT0(X)

// The slice and the pixel of texel `i` of the group whose first pixel is `first`.
#if !GROUPED
#define TEXELS OUT_SLICES
#define SLICE(i) (i)
#define PIXEL(i) first
#else
#define TEXELS (OUT_SLICES * GROUP)
#define SLICE(i) DIVIDED(i, GROUP)
#define PIXEL(i) (first + i - SLICE(i) * GROUP)
#endif
#define LOAD_X(i) LOAD(X, SLICE(i) * OUT_PIXELS + PIXEL(i))

void main() {
  int first = min(PIXEL_INVOCATION * GROUP, OUT_PIXELS - GROUP);
  vec4 sum = vec4(0.0);
  float mean = 0.0;
#if CENTERED
  for (int i = REDUCTION_LANE; i < TEXELS; i += REDUCTION_LANES) sum += LOAD_X(i);
  mean = sum_of(sum) / float(OUT_CHANNELS * GROUP);
  sum = vec4(0.0);
#endif
  for (int i = REDUCTION_LANE; i < TEXELS; i += REDUCTION_LANES) {
    vec4 v = masked(SLICE(i), LOAD_X(i) - mean, 0.0);
    sum += v * v;
  }
  vec4 variance = vec4(sum_of(sum) / DIVISOR), epsilon = vec4(EPSILON);
#if LARGER
  vec4 scale = FACTOR * RSQRT(MAXIMUM(variance, epsilon));
#else
  vec4 scale = FACTOR * RSQRT(variance + epsilon);
#endif
  if (first < PIXEL_INVOCATION * GROUP) return;
  for (int i = REDUCTION_LANE; i < TEXELS; i += REDUCTION_LANES)
    store(SLICE(i), PIXEL(i), (LOAD_X(i) - mean) * scale);
}
