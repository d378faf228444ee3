// SOFTMAX over the channels of a pixel: exp(BETA * (x - max)) / sum; LOG_SOFTMAX: its logarithm.
#include "lib/tensor.glsl"
#include "lib/channels.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION;
#if SLICE_LANES == 1
  if (pixel >= OUT_PIXELS) return;
#endif
  vec4 v = vec4(LOWEST);
  for (EACH_SLICE(s)) v = max(v, masked(s, LOAD(X, s * OUT_PIXELS + pixel), LOWEST));
  float highest = highest_of(v);
  v = vec4(0.0);
  for (EACH_SLICE(s)) v += masked(s, exp((LOAD(X, s * OUT_PIXELS + pixel) - highest) * BETA), 0.0);
  float sum = sum_of(v);
  for (EACH_SLICE(s)) {
    vec4 power = (LOAD(X, s * OUT_PIXELS + pixel) - highest) * BETA;
#if LOGARITHM
    store(s, pixel, power - log(sum));
#else
    store(s, pixel, exp(power) / sum);
#endif
  }
}
