#version 310 es
#extension GL_GOOGLE_include_directive : require

// L2_NORMALIZATION: a pixel's channels over their Euclidean length.
#include "lib/tensor.glsl"
#include "lib/channels.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION;
#if REDUCTION_LANES == 1
  if (pixel >= OUT_PIXELS) return;
#endif
  vec4 squares = vec4(0.0);
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES) {
    vec4 v = LOAD(X, s * OUT_PIXELS + pixel);
    squares += v * v;
  }
  float norm = sqrt(sum_of(squares));
  if (!isnan(norm)) norm = max(norm, 1e-6);
  for (int s = REDUCTION_LANE; s < OUT_SLICES; s += REDUCTION_LANES)
    store(s, pixel, LOAD(X, s * OUT_PIXELS + pixel) / norm);
}
