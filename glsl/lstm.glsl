#version 310 es
#extension GL_GOOGLE_include_directive : require

// The cell of an LSTM with CHANNELS units. GATES: of each, what goes into the gates for the input,
// the new value, forgetting and the output.
#ifndef ASSEMBLED
#define CHANNELS 7
#define ACTIVATION 0  // 0: Y is the new state, of the old STATE; 1: the result, of the new STATE
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(GATES)
INPUT1(STATE)

vec4 gate(int number, int slice, int pixel) {
#if CHANNELS % 4 == 0
  return LOAD(GATES, (number * OUT_SLICES + slice) * OUT_PIXELS + pixel);
#else
  vec4 v;
  for (int lane = 0; lane < 4; ++lane) {
    int channel = number * CHANNELS + min(4 * slice + lane, CHANNELS - 1);
    v[lane] = LOAD_CHANNEL(GATES, channel, pixel, OUT_PIXELS);
  }
  return v;
#endif
}

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  vec4 state = LOAD(STATE, slice * OUT_PIXELS + pixel);
#if ACTIVATION
  store(slice, pixel, LOGISTIC(gate(3, slice, pixel)) * TANH(state));
#else
  vec4 added = LOGISTIC(gate(0, slice, pixel)) * TANH(gate(1, slice, pixel));
  store(slice, pixel, added + LOGISTIC(gate(2, slice, pixel)) * state);
#endif
}
