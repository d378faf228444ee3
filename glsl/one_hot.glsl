#version 310 es
#extension GL_GOOGLE_include_directive : require

// ONE_HOT: input 1 where the coordinate along the new axis is the index there, input 2 elsewhere.
#ifndef ASSEMBLED
#define VEC0 ivec4
#define ELEMENT0 ivec4
#define DEPTH 7  // elements of the new axis
#define INNER 1  // elements of the output for each of them
#define INDEX_CHANNELS 6  // channels of INDICES
#define INDEX_PIXELS 10  // pixels of INDICES
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(INDICES)
INPUT1(ON)
INPUT2(OFF)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC on = LOAD(ON, 0).xxxx, off = LOAD(OFF, 0).xxxx, v = off;
  for (int lane = 0; lane < 4 && 4 * slice + lane < OUT_CHANNELS; ++lane) {
    int element = pixel * OUT_CHANNELS + 4 * slice + lane;
    int index = element / (INNER * DEPTH) * INNER + element % INNER;
    int hot = LOAD_ELEMENT(INDICES, index, INDEX_CHANNELS, INDEX_PIXELS);
    if (hot == element / INNER % DEPTH) v[lane] = on.x;
  }
  store(slice, pixel, v);
}
