#version 310 es
#extension GL_GOOGLE_include_directive : require

// The places of a batch's elements that INDICES name each get 1 + the last element that names them.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define PARTIAL 1
#define VEC0 ivec4
#define ELEMENT0 ivec4
#define IN_PIXELS 15  // pixels of INDICES
#define BATCH_IN 15  // pixels of an image of INDICES
#define BATCH_OUT 60  // pixels of an image of the output
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(INDICES)

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= IN_PIXELS || slice >= OUT_SLICES) return;
  ivec4 indices = LOAD(INDICES, slice * IN_PIXELS + pixel);
  for (int lane = 0; lane < min(4, OUT_CHANNELS - 4 * slice); ++lane) {
    int index = indices[lane];
    if (index < 0 || index >= BATCH_OUT * OUT_CHANNELS) continue;
    int channel = index % OUT_CHANNELS;
    int target = pixel / BATCH_IN * BATCH_OUT + index / OUT_CHANNELS;
    int texel = texel_of(channel, target, OUT_PIXELS);
    int element = 1 + pixel * OUT_CHANNELS + 4 * slice + lane;
    if (channel % 4 == 0) atomicMax(OUT_TEXEL(texel).x, element);
    if (channel % 4 == 1) atomicMax(OUT_TEXEL(texel).y, element);
    if (channel % 4 == 2) atomicMax(OUT_TEXEL(texel).z, element);
    if (channel % 4 == 3) atomicMax(OUT_TEXEL(texel).w, element);
  }
}
