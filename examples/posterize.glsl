// Posterize: every channel rounded to one of LEVELS evenly spaced values between 0 and 1.
#include "lib/tensor.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  vec4 x = LOAD(X, slice * OUT_PIXELS + pixel);
  float steps = float(LEVELS - 1);
  store(slice, pixel, floor(clamp(x, 0.0, 1.0) * steps + 0.5) / steps);
}
