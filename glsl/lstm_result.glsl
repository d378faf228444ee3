#version 310 es
#extension GL_GOOGLE_include_directive : require

// The result of the cell in a step of a normalized LSTM, from its new state.
#include "lib/lstm_normalization.glsl"

void main() {
  INVOCATION(UNIT_SLICES)
  vec4 result = result_of(after(CELL + slice, batch), normalized(3, slice, batch));
  if (here) set_after(RESULT + slice, batch, result);
}
