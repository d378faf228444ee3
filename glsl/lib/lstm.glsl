// The cell of an LSTM, and where its numbers are.
//
// A row of the history has, in whole slices: the output state, the cell state, the result of the
// cell if it is projected, and the sums of the gates if they are normalized. The gates, in order:
// input, forget, new value, output. X: the sum of the layer's inputs for each gate.
//
// W: for each slice of the output state and each gate, four columns of UNIT_SLICES texels; then rows
// of UNIT_SLICES texels: three peepholes, four coefficients and four biases of the normalization, by
// gate; then the projection: for each slice of the cell, four columns of STATE_SLICES texels, and
// the biases.
#ifndef LIB_LSTM
#define LIB_LSTM
#ifndef ASSEMBLED
#define UNIT_SLICES 3  // slices of the cell state
#define PEEPHOLE 0  // 1: the gates see the cell state
#define PROJECTED 0
#define ACTIVATION TANH
#define CELL_CLIP 0.0  // 0: no limit

// 1: computed in integers. The history keeps the sums of gates as multiples of 1 / GATE_STEPS, and
// its other numbers as real numbers.
#define INTEGER 0
#define GATE_STEPS vec4(4096.0)
#define PEEPHOLE_PARTS vec4(128.0)  // see `rounded`
#define CELL_SCALE 0.00048828125  // two to the power of CELL_EXPONENT
#define CELL_EXPONENT (-11)
#define CELL_LIMIT 0  // 0: none
#define RESULT_STEPS 9.3e-8  // of 1 / 2^30 of the cell's result
#define RESULT_OFFSET 3.0  // added to the cell's result before it is limited to 8 bits
#define RESULT_ZERO 3.0  // then subtracted, which gives a multiple of RESULT_SCALE
#define RESULT_SCALE 0.01
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

// The slice of an invocation, of `slices`, and whether it writes that slice.
#define INVOCATION(slices) \
  int batch = min(PIXEL_INVOCATION, BATCH - 1), slice = min(SLICE_INVOCATION, (slices)-1); \
  bool here = PIXEL_INVOCATION < BATCH && SLICE_INVOCATION < (slices) && REDUCTION_LANE == 0;

// As in LiteRT, NaN becomes the limit.
vec4 limited(vec4 v, float limit) { return limit > 0.0 ? max(min(v, limit), -limit) : v; }

#if INTEGER
// Rounded as a multiplication by a fixed-point number is: to `parts` of an integer, and then again.
vec4 rounded(vec4 v, float parts) { return nearest(nearest(v * parts) / parts); }

#define ADDED(sum, v, gate, parts) \
  clamp(sum + rounded((v)*GATE_STEPS[gate], parts[gate]), -32768.0, 32767.0)
#else
#define ADDED(sum, v, gate, parts) ((sum) + (v))
#endif

// The sum of the output gate, which sees the new cell state.
vec4 output_sum(vec4 sum, vec4 cell, int slice) {
#if PEEPHOLE
  sum = ADDED(sum, PARAMETER(2, slice) * cell, 3, PEEPHOLE_PARTS);
#endif
  return sum;
}

// SHARE: how much a gate lets through, of WHOLE.
#if INTEGER
#define SHARE ivec4
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
