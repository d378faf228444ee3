#version 310 es
#extension GL_GOOGLE_include_directive : require

// A step of an LSTM whose sums are not normalized: the new cell state and the cell's result.
#include "lib/lstm_sums.glsl"

void main() {
  INVOCATION(UNIT_SLICES)
  FOR_ALL_STEPS(here, slice, batch) {
    BARRIER
    SUMS_OF_GATES sums = sums_of(0, slice, batch);
    SHARE kept = SHARE_OF(sums[1]), opened = CIFG == 1 ? WHOLE - kept : SHARE_OF(sums[0]);
#if GATES < 4
    sums = sums_of(GATES, slice, batch);
#endif
    vec4 cell = next_cell(before(CELL + slice, batch), kept, opened, sums[2 % GATES]);
    if (here) set_after(CELL + slice, batch, cell);
    vec4 result = result_of(cell, output_sum(sums[3 % GATES], cell, slice));
    if (here) {
      set_after(RESULT + slice, batch, result);
      share_state(passed + 1, slice, batch, result);
    }
  }
}
