#version 310 es
#extension GL_GOOGLE_include_directive : require

// The keys of boxes that a suppression selects from: of those with a score of NUMBERS.x at least.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define SCORES_CHANNELS 4  // channels of SCORES
#define SCORES_PIXELS 10  // pixels of SCORES
#define SCORES_PER_BOX 4
#define FIRST_CLASS 1  // in the scores of a box
#define LARGEST_OF 1  // number of a box's scores that make its score in a class
#define ABOVE 0  // 1: the scores must be above NUMBERS.x
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"
#include "lib/candidates.glsl"

INPUT0(SCORES)
INPUT1(NUMBERS)

void main() {
  int texel = PIXEL_INVOCATION;
  if (texel >= HEADS) return;
  int first = texel / BLOCKS + FIRST_CLASS, box = 4 * (texel % BLOCKS);
  float least = LOAD(NUMBERS, 0).x;
  ivec4 keys = ivec4(NONE);
  for (int i = 0; i < 4 && box + i < BOXES; ++i) {
    int element = (box + i) * SCORES_PER_BOX + first;
    float score = LOAD_ELEMENT(SCORES, element, SCORES_CHANNELS, SCORES_PIXELS);
    for (int n = 1; n < LARGEST_OF; ++n) {
      float other = LOAD_ELEMENT(SCORES, element + n, SCORES_CHANNELS, SCORES_PIXELS);
      if (other > score) score = other;
    }
#if ABOVE
    if (score > least) keys[i] = key_of(score);
#else
    if (score >= least) keys[i] = key_of(score);
#endif
  }
  store(0, texel, keys);
}
