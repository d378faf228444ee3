#version 310 es
#extension GL_GOOGLE_include_directive : require

// DEPTHWISE_CONV_2D: see lib/depthwise.glsl. An invocation computes one slice of a run.
#ifndef ASSEMBLED
#define IN_PIXELS 60  // pixels of X
#endif
#include "lib/depthwise.glsl"

void main() {
  int slice = SLICE_INVOCATION;
  Run run = find_run(PIXEL_INVOCATION);
  vec4 sum[PIXELS];
  convolve(sum, run, min(slice, OUT_SLICES - 1), OUT_SLICES, IN_PIXELS);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
    if (run_pixel(run, p) >= 0 && slice < OUT_SLICES) store(slice, run_pixel(run, p), sum[p]);
}
