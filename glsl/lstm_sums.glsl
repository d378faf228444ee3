#version 310 es
#extension GL_GOOGLE_include_directive : require

// The sums of the gates in a step of a normalized LSTM, which lstm_cell.glsl reads.
#include "lib/lstm_sums.glsl"

void main() {
  INVOCATION(UNIT_SLICES)
  SUMS_OF_GATES sums;
#pragma unroll
  for (int gate = 0; gate < 4; ++gate) {
    if (gate % GATES == 0) sums = sums_of(gate, slice, batch);
    if (here && gate >= CIFG)
      set_after(SUMS + gate * UNIT_SLICES + slice, batch, sums[gate % GATES]);
  }
}
