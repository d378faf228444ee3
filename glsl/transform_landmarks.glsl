#version 310 es
#extension GL_GOOGLE_include_directive : require

// TransformLandmarks: where a MATRIX takes landmarks; their third coordinate stays.
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(MATRIX)

void main() {
  int pixel = PIXEL_INVOCATION;
  if (pixel >= OUT_PIXELS) return;
  vec4 v = LOAD(X, pixel), x = LOAD(MATRIX, 0), y = LOAD(MATRIX, 1);
  store(0, pixel, vec4(dot(x.xy, v.xy) + x.w, dot(y.xy, v.xy) + y.w, v.z, 0.0));
}
