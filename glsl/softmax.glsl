#version 310 es
#extension GL_GOOGLE_include_directive : require

// SOFTMAX over the channels of a pixel: exp(BETA * (x - max)) / sum; LOG_SOFTMAX: its logarithm.
#ifndef ASSEMBLED
#define BETA 1.0
#define LOGARITHM 0  // 1: LOG_SOFTMAX
#endif
#include "lib/tensor.glsl"
#include "lib/channels.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION;
#if REDUCTION_LANES == 1
  if (pixel >= OUT_PIXELS) return;
#endif
  vec4 v = vec4(LOWEST_FLOAT);
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES)
    v = max(v, masked(s, LOAD(X, s * OUT_PIXELS + pixel), LOWEST_FLOAT));
  float highest = highest_of(v);
  v = vec4(0.0);
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES)
    v += masked(s, exp((LOAD(X, s * OUT_PIXELS + pixel) - highest) * BETA), 0.0);
  float sum = sum_of(v);
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES) {
    vec4 power = (LOAD(X, s * OUT_PIXELS + pixel) - highest) * BETA;
#if LOGARITHM
    store(s, pixel, power - log(sum));
#else
    store(s, pixel, exp(power) / sum);
#endif
  }
}
