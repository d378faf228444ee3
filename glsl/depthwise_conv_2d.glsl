// DEPTHWISE_CONV_2D: see lib/depthwise.glsl. An invocation computes one slice of a run.
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(D)
#define D_SLICES OUT_SLICES
#include "lib/depthwise.glsl"

void main() {
  int slice = SLICE_INVOCATION;
  find_run(PIXEL_INVOCATION);
  vec4 sum[PIXELS];
  convolve(sum, min(slice, OUT_SLICES - 1), IN_PIXELS);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
    if (run_pixel(p) >= 0 && slice < OUT_SLICES) store(slice, run_pixel(p), sum[p]);
}
