// The sums of an LSTM's gates.
#ifndef LIB_LSTM_SUMS
#define LIB_LSTM_SUMS
#ifndef ASSEMBLED
#define CIFG 0  // 1: the input gate is computed from the forget gate, and has no sum
#define GATES 4  // gates summed at once, 4 or 2
#define INPUT_PARTS vec4(128.0)  // see `rounded`
#define RECURRENT_PARTS vec4(128.0)
#endif
#if GATES == 4
#define SUMS_OF_GATES mat4
#else
#define SUMS_OF_GATES mat2x4
#endif
#define JOINED SUMS_OF_GATES
#include "lib/lstm.glsl"

// The sums of the inputs and of the output state for GATES gates, the first of which is `first`.
SUMS_OF_GATES sums_of(int first, int slice, int batch) {
  SUMS_OF_GATES sums = SUMS_OF_GATES(0.0);
  for (int k = REDUCTION_LANE; k < STATE_SLICES; k += REDUCTION_LANES) {
    vec4 v = output_state(k, batch);
    int w = (16 * k + 4 * first) * UNIT_SLICES + slice;
#pragma unroll
    for (int i = 0; i < GATES; ++i)
      if (first + i >= CIFG) sums[i] += COLUMNS(W, w + 4 * i * UNIT_SLICES, UNIT_SLICES, v);
  }
  JOIN(sums, SUM)
#pragma unroll
  for (int i = 0; i < GATES; ++i) {
    vec4 of_input = LOAD_STEP(X, (first + i) * UNIT_SLICES + slice, batch);
    of_input = ADDED(vec4(0.0), of_input, first + i, INPUT_PARTS);
    if (first + i >= CIFG) sums[i] = ADDED(of_input, sums[i], first + i, RECURRENT_PARTS);
  }
#if PEEPHOLE
  if (first == 0) {
    vec4 cell = before(CELL + slice, batch);
    sums[0] = ADDED(sums[0], PARAMETER(0, slice) * cell, 0, PEEPHOLE_PARTS);
    sums[1] = ADDED(sums[1], PARAMETER(1, slice) * cell, 1, PEEPHOLE_PARTS);
  }
#endif
  return sums;
}
#endif
