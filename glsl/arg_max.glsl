#version 310 es
#extension GL_GOOGLE_include_directive : require

// ARG_MAX, ARG_MIN: the first place of the best value of LENGTH channels or pixels. NaN is never
// the best.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define BEST LARGEST  // or SMALLEST
#define WORST -3.402823466e38  // which every value but NaN is better than
#define OVER_CHANNELS 0  // 1: of the channels; 0: of pixels
#define LENGTH 5  // how many
#define STRIDE 6  // from one of these pixels to the next, given if not OVER_CHANNELS
#define IN_PIXELS 300  // pixels of X
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

#define LARGEST(a, b) ((a) > (b))
#define SMALLEST(a, b) ((a) < (b))

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  VEC0 best = VEC0(WORST);
  ivec4 place = ivec4(0);
#if OVER_CHANNELS
#pragma unroll(gpu)
  for (int channel = 0; channel < LENGTH; ++channel) {
    VEC0 v = LOAD(X, texel_of(channel, pixel, IN_PIXELS));
    bool better = BEST(v[channel % 4], best.x);
    best.x = better ? v[channel % 4] : best.x;
    place.x = better ? channel : place.x;
  }
#else
  int start = slice * IN_PIXELS + pixel / STRIDE * (STRIDE * LENGTH) + pixel % STRIDE;
#pragma unroll(gpu)
  for (int i = 0; i < LENGTH; ++i) {
    VEC0 v = LOAD(X, start + i * STRIDE);
    for (int lane = 0; lane < 4; ++lane) {
      bool better = BEST(v[lane], best[lane]);
      best[lane] = better ? v[lane] : best[lane];
      place[lane] = better ? i : place[lane];
    }
  }
#endif
  store(slice, pixel, place);
}
