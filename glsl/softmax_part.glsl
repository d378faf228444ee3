#version 310 es
#extension GL_GOOGLE_include_directive : require

// The highest element of a part of a row, and the sum of its exponentials, for softmax.glsl. Texel
// part * IN_PIXELS + pixel has their bits, as float16 might not hold them.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define PART 2  // slices of a part
#endif
#include "lib/tensor.glsl"
#include "lib/softmax.glsl"

void main() {
  int part = PIXEL_INVOCATION / IN_PIXELS, pixel = PIXEL_INVOCATION - part * IN_PIXELS;
  float highest, sum;
  add_up(part * PART, min((part + 1) * PART, IN_SLICES), pixel, highest, sum);
  if (REDUCTION_LANE == 0)
    store(0, PIXEL_INVOCATION, ivec4(floatBitsToInt(highest), floatBitsToInt(sum), 0, 0));
}
