#version 310 es
#extension GL_GOOGLE_include_directive : require

// TOPK_V2 and STABLEHLO_SORT: sorts each BLOCK of a row of X, the largest key first; of equal ones,
// the first comes first. The output has KEPT of each block, as texels of a key and its channel.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define IN_CHANNELS 7  // channels of X
#define IN_PIXELS 20  // pixels of X, its rows
#define BLOCK 16  // texels
#define KEPT 5
#define WIDTH 5  // pairs of a row
#define KEY key_of  // or a macro of lib/keys.glsl
#define ONE_BY_ONE 0  // 1: an invocation finds a block's pairs; 0: the ranks in a texel
#endif
#include "lib/keys.glsl"
#include "lib/tensor.glsl"

INPUT0(X)

#define IN_SLICES ((IN_CHANNELS + 3) / 4)

ivec4 keys_of(int slice, int row) {
  VEC0 v = LOAD(X, slice * IN_PIXELS + row);
  ivec4 keys = ivec4(KEY(v.x), KEY(v.y), KEY(v.z), KEY(v.w));
  return choose(ivec4(NONE), keys, lanes_below(IN_CHANNELS - 4 * slice));
}

void put(int row, int block, int rank, int key, int channel) {
  store(0, row * WIDTH + block * KEPT + rank, ivec4(key, channel, 0, 0));
}

#if ONE_BY_ONE
void main() {
  int block = PIXEL_INVOCATION / IN_PIXELS, row = PIXEL_INVOCATION - block * IN_PIXELS;
  int first = block * BLOCK, end = min(first + BLOCK, IN_SLICES);
  int count = min(KEPT, min(4 * end, IN_CHANNELS) - 4 * first), key = 0x7fffffff, channel = -1;
  for (int rank = 0; rank < count; ++rank) {
    int next = -1, next_key = NONE;
    for (int slice = first; slice < end; ++slice) {
      ivec4 keys = keys_of(slice, row);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int other = 4 * slice + i;
        bool follows = keys[i] < key || keys[i] == key && other > channel;
        if (follows && (next < 0 || keys[i] > next_key)) {
          next = other;
          next_key = keys[i];
        }
      }
    }
    channel = next;
    key = next_key;
    put(row, block, rank, key, channel);
  }
}
#else
void main() {
  int slice = PIXEL_INVOCATION / IN_PIXELS, row = PIXEL_INVOCATION - slice * IN_PIXELS;
  int block = slice / BLOCK, end = min((block + 1) * BLOCK, IN_SLICES);
  ivec4 keys = keys_of(min(slice, IN_SLICES - 1), row);
  ivec4 channels = 4 * slice + ivec4(0, 1, 2, 3), ranks = ivec4(0);
  for (int other = block * BLOCK; other < end; ++other) {
    ivec4 others = keys_of(other, row);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ivec4 key = ivec4(others[i]), is_earlier = ivec4(lessThan(ivec4(4 * other + i), channels));
      ranks += ivec4(greaterThan(key, keys)) + (ivec4(equal(key, keys)) & is_earlier);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (channels[i] < IN_CHANNELS && ranks[i] < KEPT)
      put(row, block, ranks[i], keys[i], channels[i]);
  }
}
#endif
