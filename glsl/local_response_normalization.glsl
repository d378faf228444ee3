#version 310 es
#extension GL_GOOGLE_include_directive : require

// LOCAL_RESPONSE_NORMALIZATION: x (BIAS + ALPHA s)^-BETA, s the sum of the squares of the channels
// at most RADIUS away.
#ifndef ASSEMBLED
#define RADIUS 5
#define BIAS 1.0
#define ALPHA 1.0
#define BETA 0.5
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  vec4 sums = vec4(0.0);
  for (int lane = 0; lane < 4; ++lane) {
    int channel = 4 * slice + lane, last = min(channel + RADIUS, OUT_CHANNELS - 1);
    for (int other = max(channel - RADIUS, 0); other <= last; ++other) {
      float v = LOAD_CHANNEL(X, other, pixel, OUT_PIXELS);
      sums[lane] += v * v;
    }
  }
  vec4 factor = POW(BIAS + ALPHA * sums, vec4(-BETA));
  store(slice, pixel, LOAD(X, slice * OUT_PIXELS + pixel) * factor);
}
