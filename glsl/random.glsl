#version 310 es
#extension GL_GOOGLE_include_directive : require

// RANDOM_UNIFORM: numbers from 0 to below 1; RANDOM_STANDARD_NORMAL: pairs of them by Box and Muller.
#ifndef ASSEMBLED
#define VEC0 ivec4
#define ELEMENT0 ivec4
#define NORMAL 0  // 1: RANDOM_STANDARD_NORMAL
#endif
#include "lib/tensor.glsl"
#include "lib/philox.glsl"

INPUT0(RUNS)

void main() {
  int slice = SLICE_INVOCATION;
  if (slice >= OUT_SLICES || PIXEL_INVOCATION > 0) return;
  vec4 v = fractions(draw(uint(slice), LOAD(RUNS, 0)));
#if NORMAL
  vec4 size = sqrt(-2.0 * LOG(max(v.xxzz, 1e-7)));
  vec4 angle = 6.283185307 * v.yyww;
  v = size * mix(SIN(angle), COS(angle), bvec4(false, true, false, true));
#endif
  store(slice, 0, v);
}
