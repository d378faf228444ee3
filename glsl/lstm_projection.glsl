#version 310 es
#extension GL_GOOGLE_include_directive : require

// The output state in a step of an LSTM with a projection, from the cell's result.
#ifndef ASSEMBLED
#define PROJECTION_CLIP 0.0  // 0: no limit
#define OUTPUT_PARTS 128.0  // see `rounded`
#define OUTPUT_SCALE 0.01
#define OUTPUT_ZERO 3.0
#define OUTPUT_LIMIT 0.0  // the largest integer; 0: no limit
#endif
#define JOINED vec4
#include "lib/lstm.glsl"

void main() {
  INVOCATION(STATE_SLICES)
  int first = (16 * STATE_SLICES + 11) * UNIT_SLICES;
  vec4 sum = vec4(0.0);
  for (int k = REDUCTION_LANE; k < UNIT_SLICES; k += REDUCTION_LANES) {
    vec4 v = after(RESULT + k, batch);
    sum += COLUMNS(W, first + 4 * k * STATE_SLICES + slice, STATE_SLICES, v);
  }
  JOIN(sum, SUM)
  sum += LOAD(W, first + 4 * UNIT_SLICES * STATE_SLICES + slice);
#if INTEGER
  sum = clamp(rounded(sum / OUTPUT_SCALE, OUTPUT_PARTS) + OUTPUT_ZERO, -128.0, 127.0);
  sum = (limited(sum, OUTPUT_LIMIT) - OUTPUT_ZERO) * OUTPUT_SCALE;
#else
  sum = limited(sum, PROJECTION_CLIP);
#endif
  if (here) set_after(slice, batch, sum);
}
