#version 310 es
#extension GL_GOOGLE_include_directive : require

// TransformTensorBilinear: a crop whose pixels MATRIX maps to X, between whose pixels it is
// linear; zero outside. Both count from the corners of pixels.
#ifndef ASSEMBLED
#define IN_H 48
#define IN_W 48
#define OUT_W 16
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(MATRIX)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  vec2 at = vec2(pixel % OUT_W, pixel / OUT_W);
  vec4 x = LOAD(MATRIX, 0), y = LOAD(MATRIX, 1);
  vec2 shift = vec2(x.w + 0.5 * (x.x + x.y), y.w + 0.5 * (y.x + y.y)) - 0.5;
  at = vec2(dot(x.xy, at), dot(y.xy, at)) + shift;
  const vec2 last = vec2(IN_W - 1, IN_H - 1);
  OUT_VEC v = OUT_VEC(0);
  if (all(greaterThanEqual(at, vec2(0.0))) && all(lessThanEqual(at, last))) {
    ivec2 low = ivec2(at), high = min(low + 1, ivec2(last));
    vec2 part = at - vec2(low);
    int first = slice * (IN_H * IN_W), upper = first + low.y * IN_W, lower = first + high.y * IN_W;
    v = mix(mix(LOAD(X, upper + low.x), LOAD(X, upper + high.x), part.x),
            mix(LOAD(X, lower + low.x), LOAD(X, lower + high.x), part.x), part.y);
  }
  store(slice, pixel, v);
}
