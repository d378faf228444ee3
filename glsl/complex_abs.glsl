#version 310 es
#extension GL_GOOGLE_include_directive : require

// COMPLEX_ABS: X has the real parts of all pixels, then the imaginary ones.
#include "lib/tensor.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int at = 2 * slice * OUT_PIXELS + pixel;
  vec4 a = abs(LOAD(X, at)), b = abs(LOAD(X, at + OUT_PIXELS));
  vec4 most = max(a, b), ratio = min(a, b) / most;  // squares would overflow
  vec4 size = most * sqrt(1.0 + ratio * ratio);
  size = keep_nan(keep_nan(mix(size, most, equal(most, vec4(0.0))), a), b);
  bvec4 infinite = equal(most, vec4(INFINITY));
  store(slice, pixel, mix(size, vec4(INFINITY), infinite));
}
