// CUMSUM over the channels, or over LENGTH pixels that lie STRIDE apart: the sum of all elements
// before this one and, unless EXCLUSIVE, itself; REVERSE counts from the end.
#include "lib/tensor.glsl"

INPUT0(X)

void main() {
  int line = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (line >= LINES || slice >= LINE_SLICES) return;
  OUT_VEC sum = OUT_VEC(0);
#if OVER_CHANNELS
  for (int i = 0; i < OUT_SLICES; ++i) {
    int s = REVERSE == 1 ? OUT_SLICES - 1 - i : i;
    OUT_VEC v = LOAD(X, s * OUT_PIXELS + line), sums;
    for (int j = 0; j < 4; ++j) {
      int lane = REVERSE == 1 ? 3 - j : j;
      sums[lane] = EXCLUSIVE == 1 ? sum.x : sum.x + v[lane];
      sum.x += v[lane];
    }
    store(s, line, sums);
  }
#else
  int start = line / STRIDE * (STRIDE * LENGTH) + line % STRIDE;
#pragma unroll(gpu)
  for (int i = 0; i < LENGTH; ++i) {
    int pixel = start + (REVERSE == 1 ? LENGTH - 1 - i : i) * STRIDE;
    OUT_VEC v = LOAD(X, slice * OUT_PIXELS + pixel);
    store(slice, pixel, EXCLUSIVE == 1 ? sum : sum + v);
    sum += v;
  }
#endif
}
