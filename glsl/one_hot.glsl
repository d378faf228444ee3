// ONE_HOT: input 1 where the coordinate along the new axis is the index there, input 2 elsewhere.
//
// The new axis has DEPTH elements, each INNER elements long.
#include "lib/tensor.glsl"

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
    int channel = index % INDEX_CHANNELS;
    int hot = LOAD(INDICES, channel / 4 * INDEX_PIXELS + index / INDEX_CHANNELS)[channel % 4];
    if (hot == element / INNER % DEPTH) v[lane] = on.x;
  }
  store(slice, pixel, v);
}
