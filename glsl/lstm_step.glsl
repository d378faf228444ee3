#version 310 es
#extension GL_GOOGLE_include_directive : require

// One step of an LSTM: STAGE 0 makes the sums of the gates, 1 the new cell state, 2 the result of the
// cell, 3 the projection of that. Unless the sums are normalized (NORM), 1 does what 0 and 2 do, too.
//
// A row of the history has, in whole slices: the output state, the cell state, the result of the cell
// if it is projected, and the sums of the gates if they are normalized. The gates are those of the
// input, forgetting, the new value and the output. X: what the layer's inputs add to each.
//
// W: of each slice of the output state and each gate, four columns of UNIT_SLICES texels; then rows
// of UNIT_SLICES texels: three peepholes, four coefficients and four biases of NORM, by gate.
#ifndef ASSEMBLED
#define STAGE 1
#define STATE_SLICES 2  // slices of the output state
#define UNIT_SLICES 3  // slices of the cell state
#define UNITS 11
#define CIFG 0  // 1: there is no gate for the input, it is what is not forgotten
#define PEEPHOLE 0  // 1: the gates see the cell state
#define NORM 0
#define PROJECTED 0
#define ACTIVATION TANH
#define CELL_CLIP 0.0  // 0: no limit
#define PROJECTION_CLIP 0.0
#endif
#if STAGE == 3
#define JOINED vec4
#else
#define JOINED mat4
#endif
#include "lib/recurrence.glsl"

INPUT0(X)
INPUT1(W)

#define CELL STATE_SLICES
#define RESULT (PROJECTED * (CELL + UNIT_SLICES))
#define SUMS (CELL + (1 + PROJECTED) * UNIT_SLICES)
#define PARAMETER(row, slice) LOAD(W, (16 * STATE_SLICES + (row)) * UNIT_SLICES + (slice))

vec4 limited(vec4 v, float limit) { return limit > 0.0 ? clamp(v, -limit, limit) : v; }

#if STAGE != 3
// What the inputs and the output state add up to in each gate.
mat4 sums_of(int slice, int batch) {
  mat4 sums = mat4(0.0);
  for (int k = REDUCTION_LANE; k < STATE_SLICES; k += REDUCTION_LANES) {
    vec4 v = before(k, batch);
    int w = 16 * k * UNIT_SLICES + slice;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate)
      if (gate >= CIFG) sums[gate] += COLUMNS(W, w + 4 * gate * UNIT_SLICES, UNIT_SLICES, v);
  }
  JOIN(sums, SUM)
#pragma unroll
  for (int gate = 0; gate < 4; ++gate)
    if (gate >= CIFG) sums[gate] += LOAD_STEP(X, gate * UNIT_SLICES + slice, batch);
#if PEEPHOLE
  vec4 cell = before(CELL + slice, batch);
  sums[0] += PARAMETER(0, slice) * cell;
  sums[1] += PARAMETER(1, slice) * cell;
#endif
  return sums;
}

// The sum for the output gate, which sees the new cell state.
vec4 output_sum(vec4 sum, vec4 cell, int slice) {
#if PEEPHOLE
  sum += PARAMETER(2, slice) * cell;
#endif
  return sum;
}

#if NORM
vec4 sum_at(int gate, int slice, int batch) {
  vec4 sum = after(SUMS + gate * UNIT_SLICES + slice, batch);
  return gate == 3 ? output_sum(sum, after(CELL + slice, batch), slice) : sum;
}

// A gate's sum with the mean 0 and the variance 1 over all units, and then scaled.
vec4 gate_of(int gate, int slice, int batch) {
  const vec4 ones = vec4(1.0);
  float mean = 0.0, variance = 0.0;
  for (int k = 0; k < UNIT_SLICES; ++k) mean += dot(sum_at(gate, k, batch), ones);
  mean /= float(UNITS);
  for (int k = 0; k < UNIT_SLICES; ++k) {
    vec4 v = sum_at(gate, k, batch) - mean;
    v = choose(vec4(0.0), v, lanes_below(UNITS - 4 * k));
    variance += dot(v, v);
  }
  vec4 v = (sum_at(gate, slice, batch) - mean) / sqrt(variance / float(UNITS) + 1e-8);
  return PARAMETER(3 + gate, slice) * v + PARAMETER(7 + gate, slice);
}
#else
#define gate_of(gate, slice, batch) sums[gate]
#endif

#endif

void main() {
  int batch = min(PIXEL_INVOCATION, BATCH - 1), slice = SLICE_INVOCATION;
  bool here = PIXEL_INVOCATION < BATCH && REDUCTION_LANE == 0;
#if STAGE == 3
  slice = min(slice, STATE_SLICES - 1);
  here = here && slice == SLICE_INVOCATION;
  int first = (16 * STATE_SLICES + 11) * UNIT_SLICES;
  vec4 sum = vec4(0.0);
  for (int k = REDUCTION_LANE; k < UNIT_SLICES; k += REDUCTION_LANES) {
    vec4 v = after(RESULT + k, batch);
    sum += COLUMNS(W, first + 4 * k * STATE_SLICES + slice, STATE_SLICES, v);
  }
  JOIN(sum, SUM)
  sum += LOAD(W, first + 4 * UNIT_SLICES * STATE_SLICES + slice);
  if (here) set_after(slice, batch, limited(sum, PROJECTION_CLIP));
#else
  slice = min(slice, UNIT_SLICES - 1);
  here = here && slice == SLICE_INVOCATION;
#if STAGE == 0 || !NORM
  mat4 sums = sums_of(slice, batch);
#endif
#if STAGE == 0
  if (here) {
#pragma unroll
    for (int gate = 0; gate < 4; ++gate)
      if (gate >= CIFG) set_after(SUMS + gate * UNIT_SLICES + slice, batch, sums[gate]);
  }
#else
  vec4 cell;
#if STAGE == 1
  vec4 kept = LOGISTIC(gate_of(1, slice, batch));
#if CIFG
  vec4 added = 1.0 - kept;
#else
  vec4 added = LOGISTIC(gate_of(0, slice, batch));
#endif
  cell = kept * before(CELL + slice, batch) + added * ACTIVATION(gate_of(2, slice, batch));
  cell = limited(cell, CELL_CLIP);
  if (here) set_after(CELL + slice, batch, cell);
#else
  cell = after(CELL + slice, batch);
#endif
#if STAGE == 2
  vec4 opened = LOGISTIC(gate_of(3, slice, batch));
#elif !NORM
  vec4 opened = LOGISTIC(output_sum(sums[3], cell, slice));
#endif
#if STAGE == 2 || !NORM
  if (here) set_after(RESULT + slice, batch, opened * ACTIVATION(cell));
#endif
#endif
#endif
}
