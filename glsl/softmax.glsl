// SOFTMAX over the channels of a pixel: exp(BETA * (x - max)) / sum.
#include "lib/tensor.glsl"

INPUT0(X)

const float LOWEST = -3.402823466e38;

// A texel with LOWEST, or with zero, in the lanes past the last channel.
vec4 masked(int slice, vec4 v, float fill) {
#if OUT_CHANNELS % 4 == 0
  return v;
#else
  return mix(vec4(fill), v, lanes_below(OUT_CHANNELS - 4 * slice));
#endif
}

void main() {
  int pixel = PIXEL_INVOCATION;
  if (pixel >= OUT_PIXELS) return;
  vec4 v = vec4(LOWEST);
  for (int s = 0; s < OUT_SLICES; ++s) v = max(v, masked(s, LOAD(X, s * OUT_PIXELS + pixel), LOWEST));
  float highest = max(max(v.x, v.y), max(v.z, v.w));
  v = vec4(0.0);
  for (int s = 0; s < OUT_SLICES; ++s)
    v += masked(s, exp((LOAD(X, s * OUT_PIXELS + pixel) - highest) * BETA), 0.0);
  float sum = v.x + v.y + v.z + v.w;
  for (int s = 0; s < OUT_SLICES; ++s)
    store(s, pixel, exp((LOAD(X, s * OUT_PIXELS + pixel) - highest) * BETA) / sum);
}
