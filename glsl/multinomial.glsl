#version 310 es
#extension GL_GOOGLE_include_directive : require

// MULTINOMIAL: of each pixel of X, classes drawn with probabilities in proportion to exp(x).
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define CLASSES 5  // channels of X
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"
#include "lib/philox.glsl"

INPUT0(X)
INPUT1(RUNS)

#define IS_FINITE(x) (abs(x) <= 3.402823466e38)

float logit(int c, int pixel) { return LOAD_CHANNEL(X, c, pixel, OUT_PIXELS); }

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  float highest = -3.402823466e38, total = 0.0;
  for (int c = 0; c < CLASSES; ++c) {
    float x = logit(c, pixel);
    if (IS_FINITE(x)) highest = max(highest, x);
  }
  for (int c = 0; c < CLASSES; ++c) {
    float x = logit(c, pixel);
    if (IS_FINITE(x)) total += exp(x - highest);
  }
  ivec4 v = ivec4(0);
  for (int lane = 0; lane < 4 && 4 * slice + lane < OUT_CHANNELS; ++lane) {
    int sample_number = pixel * OUT_CHANNELS + 4 * slice + lane;
    uvec4 words = draw(uint(sample_number / 2), LOAD(RUNS, 0));
    uvec2 pair = sample_number % 2 == 0 ? words.xy : words.zw;
    // The highest of 52 random bits.
    float place = fractions(uvec4(pair.x << 3 | pair.y >> 29)).x * total, sum = 0.0;
    int last = CLASSES;
    for (int c = 0; c < CLASSES; ++c) {
      float x = logit(c, pixel);
      if (!IS_FINITE(x) || sum > place) continue;
      sum += exp(x - highest);
      last = c;
    }
    v[lane] = last;
  }
  store(slice, pixel, v);
}
