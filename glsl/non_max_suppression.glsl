#version 310 es
#extension GL_GOOGLE_include_directive : require

// Selects boxes by their scores, each of which suppresses boxes of its class that overlap it much.
//
// One work group. Each texel of the output is read and written by one invocation only.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define PARTIAL 1
#define START 0  // selections that earlier dispatches have made
#define COUNT 5  // selections of this one
#define PER_CLASS 5  // selections of a class at most
#define SOFT 0  // 1: overlaps lower scores, and suppress what overlaps by NUMBERS.y exactly
#endif
#define JOINED ivec3
#include "lib/shared.glsl"
#include "lib/candidates.glsl"

INPUT0(CORNERS)
INPUT1(NUMBERS)

// Candidates are a key, a class and a box; of equal ones, the first of the first class is better.
#define BETTER(a, b) (is_better(a, b) ? a : b)
bool is_better(ivec3 a, ivec3 b) {
  if (a.x != b.x) return a.x > b.x;
  return a.y < b.y || a.y == b.y && a.z <= b.z;
}

// A box with its corners in order.
vec4 ordered(vec4 box) { return vec4(min(box.xy, box.zw), max(box.xy, box.zw)); }

float overlap(vec4 a, vec4 b) {
  vec2 a_size = a.zw - a.xy, b_size = b.zw - b.xy;
  vec2 size = max(min(a.zw, b.zw) - max(a.xy, b.xy), vec2(0.0));
  float a_area = a_size.x * a_size.y, b_area = b_size.x * b_size.y, area = size.x * size.y;
  return a_area <= 0.0 || b_area <= 0.0 ? 0.0 : area / (a_area + b_area - area);
}

// What a score becomes where the box overlaps one that was selected.
int suppressed(int key, float overlap) {
  vec4 numbers = LOAD(NUMBERS, 0);
#if SOFT
  float score = score_of(key);
  if (numbers.z > 0.0) score *= exp(-0.5 / numbers.z * overlap * overlap);
  return overlap >= numbers.y || !(score > numbers.x) ? NONE : key_of(score);
#else
  return overlap > numbers.y ? NONE : key;
#endif
}

void main() {
  int lane = REDUCTION_LANE;
  ivec3 best;
#if START == 0
  int number = 0;
  for (int c = 0; c < CLASSES; ++c) {
    best = ivec3(NONE, c, 0);
    for (int block = lane; block < BLOCKS; block += REDUCTION_LANES) {
      ivec4 keys = OUT_TEXEL(c * BLOCKS + block);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (keys[i] > best.x) best = ivec3(keys[i], c, 4 * block + i);
        number += int(keys[i] != NONE);
      }
    }
    JOIN(best, BETTER)
    if (lane == c % REDUCTION_LANES) OUT_TEXEL(HEADS + c) = ivec4(best.x, best.z, 0, 0);
  }
  ivec3 candidates = ivec3(number);
  JOIN(candidates, SUM)
  if (lane == 0) OUT_TEXEL(TOTAL) = ivec4(0, candidates.x, 0, 0);
#endif
  for (int n = START; n < START + COUNT; ++n) {
    best = ivec3(NONE, 0, 0);
    for (int c = lane; c < CLASSES; c += REDUCTION_LANES) {
      ivec4 head = OUT_TEXEL(HEADS + c);
      best = BETTER(best, ivec3(head.x, c, head.y));
    }
    JOIN(best, BETTER)
    int chosen = best.y, blocks = best.x == NONE ? 0 : BLOCKS;
    vec4 box = ordered(LOAD(CORNERS, best.z));
    if (lane == 0) {
      ivec4 total = OUT_TEXEL(TOTAL);
      bool found = best.x != NONE && total.x < total.y;
      OUT_TEXEL(SELECTIONS + n) = ivec4(found ? best.x : NONE, best.y, best.z, 0);
      if (found) OUT_TEXEL(TOTAL).x = n + 1;
    }
#if !SOFT
    int own = best.z;
#endif
    best = ivec3(NONE, chosen, 0);
    for (int block = lane; block < blocks; block += REDUCTION_LANES) {
      ivec4 keys = OUT_TEXEL(chosen * BLOCKS + block);
      if (keys == ivec4(NONE)) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int other = 4 * block + i;
        if (keys[i] != NONE)
          keys[i] = suppressed(keys[i], overlap(box, ordered(LOAD(CORNERS, other))));
#if !SOFT
        if (other == own) keys[i] = NONE;
#endif
        if (keys[i] > best.x) best = ivec3(keys[i], chosen, other);
      }
      OUT_TEXEL(chosen * BLOCKS + block) = keys;
    }
    JOIN(best, BETTER)
    if (lane == chosen % REDUCTION_LANES && blocks > 0) {
      int selected = OUT_TEXEL(HEADS + chosen).z + 1;
      OUT_TEXEL(HEADS + chosen) = ivec4(selected < PER_CLASS ? best.x : NONE, best.z, selected, 0);
    }
  }
}
