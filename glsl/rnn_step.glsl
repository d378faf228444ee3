#version 310 es
#extension GL_GOOGLE_include_directive : require

// One step of a recurrent layer without gates. W: of each slice of the state, four columns of
// STATE_SLICES texels. X: what the layer's inputs add.
#ifndef ASSEMBLED
#define ACTIVATION TANH
#endif
#include "lib/recurrence.glsl"

INPUT0(X)
INPUT1(W)

void main() {
  int batch = min(PIXEL_INVOCATION, BATCH - 1), slice = min(SLICE_INVOCATION, STATE_SLICES - 1);
  bool here = PIXEL_INVOCATION < BATCH && SLICE_INVOCATION < STATE_SLICES && REDUCTION_LANE == 0;
  FOR_ALL_STEPS(here, slice, batch) {
    BARRIER
    vec4 sum = vec4(0.0);
    for (int k = REDUCTION_LANE; k < STATE_SLICES; k += REDUCTION_LANES) {
      vec4 v = output_state(k, batch);
      sum += COLUMNS(W, 4 * k * STATE_SLICES + slice, STATE_SLICES, v);
    }
    JOIN(sum, SUM)
    sum = ACTIVATION(sum + LOAD_STEP(X, slice, batch));
    if (here) {
      set_after(slice, batch, sum);
      share_state(passed + 1, slice, batch, sum);
    }
  }
}
