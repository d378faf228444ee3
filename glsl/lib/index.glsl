// Index arithmetic: from channels, elements and coordinates to texels.
//
// Elements are counted in row-major order, so the channels count fastest.
#ifndef LIB_INDEX
#define LIB_INDEX
#ifndef ASSEMBLED
#define DIMS 2  // the number of coordinates; undefined in shaders that use none
#endif
#include "lib/tensor.glsl"

// The index of the texel that holds a channel of a pixel, in a tensor of `pixels` pixels.
int texel_of(int channel, int pixel, int pixels) { return channel / 4 * pixels + pixel; }

// A channel of a pixel of the input `name`, which has `pixels` pixels.
#define LOAD_CHANNEL(name, channel, pixel, pixels) \
  LOAD_LANE(name, texel_of(channel, pixel, pixels), (channel) % 4)

// An element of the input `name`, which has `channels` channels and `pixels` pixels.
#define LOAD_ELEMENT(name, element, channels, pixels) \
  LOAD_CHANNEL(name, (element)-DIVIDED(element, channels) * (channels), \
               DIVIDED(element, channels), pixels)

#ifdef DIMS
// The coordinates of the element `index` of a tensor of `sizes`; the last counts fastest, and the
// first is out of bounds if the element is.
int[DIMS] coordinates_of(int index, int sizes[DIMS]) {
  int at[DIMS];
#pragma unroll
  for (int d = 1; d < DIMS; ++d) {
    int next = DIVIDED(index, sizes[DIMS - d]);
    at[DIMS - d] = index - next * sizes[DIMS - d];
    index = next;
  }
  at[0] = index;
  return at;
}

// The element with the coordinates `at` in a tensor of `strides`.
int element_at(int at[DIMS], int strides[DIMS]) {
  int element = 0;
#pragma unroll
  for (int d = 0; d < DIMS; ++d) element += at[d] * strides[d];
  return element;
}
#endif
#endif
