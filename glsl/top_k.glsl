#version 310 es
#extension GL_GOOGLE_include_directive : require

// TOPK_V2: the largest elements of each row of X in order, or where they are; of equal ones, the
// first comes first. Each invocation finds all up to its own, one after the other.
#ifndef ASSEMBLED
#define INDICES 0  // 1: where they are
#define IN_CHANNELS 7  // channels of X
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int last = min(4 * slice + 4, OUT_CHANNELS), found = -1;
  VEC0 largest = VEC0(0);
  OUT_VEC v = OUT_VEC(0);
  for (int i = 0; i < last; ++i) {
    int next = -1;
    VEC0 best = VEC0(0);
    for (int channel = 0; channel < IN_CHANNELS; ++channel) {
      VEC0 x = VEC0(LOAD_CHANNEL(X, channel, pixel, OUT_PIXELS));
      bool follows = i == 0 || x.x < largest.x || x.x == largest.x && channel > found;
      if (follows && (next < 0 || x.x > best.x)) {
        next = channel;
        best = x;
      }
    }
    found = next;
    largest = best;
#if INDICES
    if (i >= 4 * slice) v[i % 4] = max(found, 0);  // none, after a NaN
#else
    if (i >= 4 * slice) v[i % 4] = largest.x;
#endif
  }
  store(slice, pixel, v);
}
