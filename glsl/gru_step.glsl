#version 310 es
#extension GL_GOOGLE_include_directive : require

// A step of a GRU, or a part of one. The gates, in order: update, reset, new value. X: the sum of the
// layer's inputs for each gate. W: for each slice of the state and each gate, four columns of
// STATE_SLICES texels; then the biases of the product that the reset gate scales.
//
// RESET_FIRST: the reset gate scales the state, not its product. A step then needs the scaled states
// of all invocations; PART 1 writes them and the update gate to the history, and PART 2 does the rest.
#ifndef ASSEMBLED
#define RESET_FIRST 0
#define GATES 3  // those that the state contributes to before it is scaled, 2 if RESET_FIRST
#define PART 0  // 0: the whole step
#endif
#define JOINED mat3x4
#include "lib/recurrence.glsl"

INPUT0(X)
INPUT1(W)

#define WEIGHTS(k, gate, slice) ((12 * (k) + 4 * (gate)) * STATE_SLICES + (slice))

#if SHARED_TEXELS
#define SCALED_STATE(k, batch) \
  output_states[(((passed + 1) & 1) * BATCH + (batch)) * STATE_SLICES + (k)]
#else
#define SCALED_STATE(k, batch) after(STATE_SLICES + (k), batch)
#endif

// The contributions of the state to the gates.
mat3x4 sums_of(int slice, int batch) {
  mat3x4 sums = mat3x4(0.0);
  for (int k = REDUCTION_LANE; k < STATE_SLICES; k += REDUCTION_LANES) {
    vec4 v = output_state(k, batch);
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate)
      sums[gate] += COLUMNS(W, WEIGHTS(k, gate, slice), STATE_SLICES, v);
  }
  JOIN(sums, SUM)
  return sums;
}

// The contribution of the scaled state to the new value.
vec4 sum_of_scaled(int slice, int batch) {
  mat3x4 sums = mat3x4(0.0);
  for (int k = REDUCTION_LANE; k < STATE_SLICES; k += REDUCTION_LANES) {
    vec4 v = SCALED_STATE(k, batch);
    sums[2] += COLUMNS(W, WEIGHTS(k, 2, slice), STATE_SLICES, v);
  }
  JOIN(sums, SUM)
  return sums[2];
}

void main() {
  int batch = min(PIXEL_INVOCATION, BATCH - 1), slice = min(SLICE_INVOCATION, STATE_SLICES - 1);
  bool here = PIXEL_INVOCATION < BATCH && SLICE_INVOCATION < STATE_SLICES && REDUCTION_LANE == 0;
  FOR_ALL_STEPS(here, slice, batch) {
    BARRIER
    vec4 state = output_state(slice, batch), update, sum = vec4(0.0);
#if PART < 2
    mat3x4 sums = sums_of(slice, batch);
    update = LOGISTIC(sums[0] + LOAD_STEP(X, slice, batch));
    vec4 reset = LOGISTIC(sums[1] + LOAD_STEP(X, STATE_SLICES + slice, batch));
    sum = reset * (sums[2] + LOAD(W, 12 * STATE_SLICES * STATE_SLICES + slice));
#if PART == 1
    if (here) set_after(STATE_SLICES + slice, batch, reset * state);
    if (here) set_after(2 * STATE_SLICES + slice, batch, update);
#elif RESET_FIRST
    if (here) share_state(passed + 1, slice, batch, reset * state);
    BARRIER
#endif
#else
    update = after(2 * STATE_SLICES + slice, batch);
#endif
#if PART != 1
#if RESET_FIRST
    sum = sum_of_scaled(slice, batch);
    BARRIER
#endif
    vec4 value = TANH(sum + LOAD_STEP(X, 2 * STATE_SLICES + slice, batch));
    state = update * state + (1.0 - update) * value;
    if (here) {
      set_after(slice, batch, state);
      share_state(passed + 1, slice, batch, state);
    }
#endif
  }
}
