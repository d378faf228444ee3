// ARG_MAX, ARG_MIN: the first place of the BEST value of LENGTH channels or, if not OVER_CHANNELS,
// of LENGTH pixels that lie STRIDE apart. NaN is never the best.
#include "lib/tensor.glsl"

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
    VEC0 v = LOAD(X, channel / 4 * IN_PIXELS + pixel);
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
