#version 310 es
#extension GL_GOOGLE_include_directive : require

// A pixel's channels, less their mean, times FACTOR / sqrt(sum of squares / DIVISOR + EPSILON).
#ifndef ASSEMBLED
#define CENTERED 1  // 0: nothing is subtracted
#define DIVISOR 7.0
#define EPSILON 1e-5
#define LARGER 0  // 1: of the sum and EPSILON, the larger one is taken
#define FACTOR 1.0
#endif
#include "lib/tensor.glsl"
#include "lib/channels.glsl"

INPUT0(X)

void main() {
  int pixel = min(PIXEL_INVOCATION, OUT_PIXELS - 1);
  vec4 sum = vec4(0.0);
  float mean = 0.0;
#if CENTERED
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES)
    sum += LOAD(X, s * OUT_PIXELS + pixel);
  mean = sum_of(sum) / float(OUT_CHANNELS);
  sum = vec4(0.0);
#endif
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES) {
    vec4 v = masked(s, LOAD(X, s * OUT_PIXELS + pixel) - mean, 0.0);
    sum += v * v;
  }
  vec4 variance = vec4(sum_of(sum) / DIVISOR), epsilon = vec4(EPSILON);
#if LARGER
  vec4 scale = FACTOR * RSQRT(MAXIMUM(variance, epsilon));
#else
  vec4 scale = FACTOR * RSQRT(variance + epsilon);
#endif
  if (pixel < PIXEL_INVOCATION) return;
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES)
    store(s, pixel, (LOAD(X, s * OUT_PIXELS + pixel) - mean) * scale);
}
