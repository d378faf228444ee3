#version 310 es
#extension GL_GOOGLE_include_directive : require

// Each element of VALUES at the places where CLAIMS has 1 + its index, 0 where it has 0.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define IN_PIXELS 15  // pixels of VALUES
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(VALUES)
INPUT1(CLAIMS)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  ivec4 claims = LOAD(CLAIMS, slice * OUT_PIXELS + pixel);
  vec4 v = vec4(0.0);
  for (int lane = 0; lane < 4; ++lane) {
    if (claims[lane] > 0) v[lane] = LOAD_ELEMENT(VALUES, claims[lane] - 1, OUT_CHANNELS, IN_PIXELS);
  }
  store(slice, pixel, v);
}
