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
#define UNIT_SLICES 3  // slices of the cell state
#define UNITS 11
#define CIFG 0  // 1: there is no gate for the input, it is what is not forgotten
#define PEEPHOLE 0  // 1: the gates see the cell state
#define NORM 0
#define GATES 4  // that are summed up at once, or 2
#define PROJECTED 0
#define ACTIVATION TANH
#define CELL_CLIP 0.0  // 0: no limit
#define PROJECTION_CLIP 0.0

// 1: computed in integers. Sums of gates are kept as multiples of 1 / GATE_STEPS, the other numbers of
// the history as those that they stand for.
#define INTEGER 0
#define GATE_STEPS vec4(4096.0)
#define INPUT_PARTS vec4(128.0)  // see `rounded`
#define RECURRENT_PARTS vec4(128.0)
#define PEEPHOLE_PARTS vec4(128.0)
#define NORM_PARTS vec4(128.0)
#define OUTPUT_PARTS 128.0
#define NORM_SCALES vec4(0.0001)  // those of the coefficients, and 1024 times those of the biases
#define NORM_GUARDS vec4(1.0)  // the variances to use instead of 0
#define CELL_SCALE 0.00048828125  // two to the power of CELL_EXPONENT
#define CELL_EXPONENT (-11)
#define CELL_LIMIT 0  // 0: none
#define RESULT_STEPS 9.3e-8  // of which the result of a cell has 2^30 or less
#define RESULT_OFFSET 3.0  // is added to the result of a cell before it is limited to 8 bits
#define RESULT_ZERO 3.0  // and subtracted then, to get a multiple of RESULT_SCALE
#define RESULT_SCALE 0.01
#define OUTPUT_SCALE 0.01
#define OUTPUT_ZERO 3.0
#define OUTPUT_LIMIT 0.0  // the largest integer of a projection, 0: any
#endif
#if GATES == 4
#define SUMS_OF_GATES mat4
#else
#define SUMS_OF_GATES mat2x4
#endif
#if STAGE == 3
#define JOINED vec4
#else
#define JOINED SUMS_OF_GATES
#endif
#include "lib/recurrence.glsl"
#if INTEGER
#include "lib/fixed_point.glsl"
#endif

INPUT0(X)
INPUT1(W)

#define CELL STATE_SLICES
#define RESULT (PROJECTED * (CELL + UNIT_SLICES))
#define SUMS (CELL + (1 + PROJECTED) * UNIT_SLICES)
#define PARAMETER(row, slice) LOAD(W, (16 * STATE_SLICES + (row)) * UNIT_SLICES + (slice))

// Of NaN, LiteRT makes the limit.
vec4 limited(vec4 v, float limit) { return limit > 0.0 ? max(min(v, limit), -limit) : v; }

#if INTEGER
// Rounded as a multiplication by a fixed-point number is: to parts of an integer, and then again.
vec4 rounded(vec4 v, float parts) { return nearest(nearest(v * parts) / parts); }

#define ADDED(sum, v, gate, parts) \
  clamp(sum + rounded((v)*GATE_STEPS[gate], parts[gate]), -32768.0, 32767.0)
#else
#define ADDED(sum, v, gate, parts) ((sum) + (v))
#endif

#if STAGE != 3
// What the inputs and the output state add up to in GATES gates from `first` on.
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

// The sum for the output gate, which sees the new cell state.
vec4 output_sum(vec4 sum, vec4 cell, int slice) {
#if PEEPHOLE
  sum = ADDED(sum, PARAMETER(2, slice) * cell, 3, PEEPHOLE_PARTS);
#endif
  return sum;
}

#if NORM
vec4 sum_at(int gate, int slice, int batch) {
  vec4 sum = after(SUMS + gate * UNIT_SLICES + slice, batch);
  return gate == 3 ? output_sum(sum, after(CELL + slice, batch), slice) : sum;
}

// A gate's sum with the mean 0 and the variance 1 over all units, and then scaled.
#if INTEGER
vec4 gate_of(int gate, int slice, int batch) {
  float sum = 0.0, squares = 0.0;
  for (int k = 0; k < UNIT_SLICES; ++k) {
    vec4 v = sum_at(gate, k, batch);
    sum += dot(v, vec4(1.0));
    squares += dot(v, v);
  }
  float mean = trunc(sum * 1024.0 / float(UNITS));
  float variance = squares * (float(0x100000 / UNITS) / 1048576.0) - mean * mean / 1048576.0;
  variance = variance < 1.0 ? NORM_GUARDS[gate] : trunc(variance);
  vec4 v = nearest((1024.0 * sum_at(gate, slice, batch) - mean) / sqrt(variance));
  float unit = NORM_SCALES[gate];
  ivec4 scaled = ivec4(v) * ivec4(nearest(PARAMETER(3 + gate, slice) / unit));
  scaled += ivec4(nearest(PARAMETER(7 + gate, slice) / unit * 1024.0));
  v = rounded(vec4(divided(scaled, 10)) * (4096.0 * unit), NORM_PARTS[gate]);
  return clamp(v, -32768.0, 32767.0);
}
#else
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
#endif
#define GATE(gate) gate_of(gate, slice, batch)
#else
#define GATE(gate) sums[gate % GATES]
#endif

#if INTEGER
#define SHARE ivec4  // how much a gate lets through, of WHOLE
#define WHOLE 32767
#define SHARE_OF(sum) LOGISTIC_16(ivec4(sum))
vec4 next_cell(vec4 before, ivec4 kept, ivec4 opened, vec4 value) {
  ivec4 cell = ivec4(nearest(before / CELL_SCALE));
  ivec4 new = divided(opened * TANH_16(ivec4(value), 3), 30 + CELL_EXPONENT);
  cell = in_16_bits(divided(kept * cell, 15) + new);
  if (CELL_LIMIT > 0) cell = clamp(cell, -CELL_LIMIT, CELL_LIMIT);
  return vec4(cell) * CELL_SCALE;
}

vec4 result_of(vec4 cell, vec4 sum) {
  ivec4 steps = ivec4(nearest(cell / CELL_SCALE));
  ivec4 v = LOGISTIC_16(ivec4(sum)) * TANH_16(steps, 15 + CELL_EXPONENT);
  vec4 result = nearest(vec4(v) * RESULT_STEPS) + RESULT_OFFSET;
  return (clamp(result, -128.0, 127.0) - RESULT_ZERO) * RESULT_SCALE;
}
#else
#define SHARE vec4
#define WHOLE 1.0
#define SHARE_OF LOGISTIC
vec4 next_cell(vec4 before, vec4 kept, vec4 opened, vec4 value) {
  return limited(kept * before + opened * ACTIVATION(value), CELL_CLIP);
}

vec4 result_of(vec4 cell, vec4 sum) { return LOGISTIC(sum) * ACTIVATION(cell); }
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
#if INTEGER
  sum = clamp(rounded(sum / OUTPUT_SCALE, OUTPUT_PARTS) + OUTPUT_ZERO, -128.0, 127.0);
  sum = (limited(sum, OUTPUT_LIMIT) - OUTPUT_ZERO) * OUTPUT_SCALE;
#else
  sum = limited(sum, PROJECTION_CLIP);
#endif
  if (here) set_after(slice, batch, sum);
#else
  slice = min(slice, UNIT_SLICES - 1);
  here = here && slice == SLICE_INVOCATION;
  FOR_ALL_STEPS(here, slice, batch) {
    BARRIER
#if STAGE == 0
    SUMS_OF_GATES sums;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
      if (gate % GATES == 0) sums = sums_of(gate, slice, batch);
      if (here && gate >= CIFG)
        set_after(SUMS + gate * UNIT_SLICES + slice, batch, sums[gate % GATES]);
    }
#else
#if STAGE == 1
#if !NORM
    SUMS_OF_GATES sums = sums_of(0, slice, batch);
#endif
    SHARE kept = SHARE_OF(GATE(1)), opened = CIFG == 1 ? WHOLE - kept : SHARE_OF(GATE(0));
#if !NORM && GATES < 4
    sums = sums_of(GATES, slice, batch);
#endif
    vec4 cell = next_cell(before(CELL + slice, batch), kept, opened, GATE(2));
    if (here) set_after(CELL + slice, batch, cell);
#else
    vec4 cell = after(CELL + slice, batch);
#endif
#if STAGE == 2 || !NORM
    vec4 result = result_of(cell, STAGE == 2 ? GATE(3) : output_sum(GATE(3), cell, slice));
    if (here) {
      set_after(RESULT + slice, batch, result);
      share_state(passed + 1, slice, batch, result);
    }
#endif
#endif
  }
#endif
}
