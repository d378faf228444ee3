#version 310 es
#extension GL_GOOGLE_include_directive : require

// The new cell state in a step of a normalized LSTM, from the sums of the gates.
#ifndef ASSEMBLED
#define CIFG 0  // 1: the input gate is computed from the forget gate, and has no sum
#endif
#include "lib/lstm_normalization.glsl"

void main() {
  INVOCATION(UNIT_SLICES)
  SHARE kept = SHARE_OF(normalized(1, slice, batch));
  SHARE opened = CIFG == 1 ? WHOLE - kept : SHARE_OF(normalized(0, slice, batch));
  vec4 value = normalized(2, slice, batch);
  vec4 cell = next_cell(before(CELL + slice, batch), kept, opened, value);
  if (here) set_after(CELL + slice, batch, cell);
}
