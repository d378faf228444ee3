#version 310 es
#extension GL_GOOGLE_include_directive : require

// GATHER, GATHER_ND and SLICE from indices computed at run time: elements of the input, found by indices.
//
// An element of the output with coordinates in SIZES is the input's element
// sum of coordinate * STRIDES + sum of index * AXIS_STRIDES. Its DEPTH indices follow each other
// from element sum of coordinate * WALK on. It is 0 where an index is outside AXIS_SIZES.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define IN_CHANNELS 7  // channels of X
#define IN_PIXELS 20  // pixels of X
#define INDEX_CHANNELS 1  // channels of INDICES
#define INDEX_PIXELS 60  // pixels of INDICES
#define SIZES int[2](60, 7)
#define STRIDES int[2](0, 1)
#define WALK int[2](1, 0)
#define DEPTH 1
#define AXIS_SIZES int[1](20)
#define AXIS_STRIDES int[1](7)
#define WHOLE_TEXELS 0  // 1: the last coordinate counts the lanes of both tensors' texels
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(X)
INPUT1(INDICES)

// The texel of the input that holds an element of the output, and its lane there.
VEC0 gathered(int element, out int lane) {
  const int axis_sizes[DEPTH] = AXIS_SIZES, axis_strides[DEPTH] = AXIS_STRIDES;
  int at[DIMS] = coordinates_of(element, SIZES);
  int from = element_at(at, STRIDES), first_index = element_at(at, WALK);
  bool inside = true;
#pragma unroll(gpu)
  for (int d = 0; d < DEPTH; ++d) {
    int index = LOAD_ELEMENT(INDICES, first_index + d, INDEX_CHANNELS, INDEX_PIXELS);
    inside = inside && index >= 0 && index < axis_sizes[d];
    from += index * axis_strides[d];
  }
  int channel = inside ? from % IN_CHANNELS : 0;
  lane = channel % 4;
  return inside ? LOAD(X, texel_of(channel, from / IN_CHANNELS, IN_PIXELS)) : VEC0(0);
}

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int element = pixel * OUT_CHANNELS + 4 * slice, lane;
#if WHOLE_TEXELS
  OUT_VEC v = gathered(element, lane);
#else
  OUT_VEC v = OUT_VEC(0);
  for (int i = 0; i < 4 && 4 * slice + i < OUT_CHANNELS; ++i) {
    VEC0 texel = gathered(element + i, lane);
    v[i] = texel[lane];
  }
#endif
  store(slice, pixel, v);
}
