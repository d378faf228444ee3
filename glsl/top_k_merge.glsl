#version 310 es
#extension GL_GOOGLE_include_directive : require

// TOPK_V2 and STABLEHLO_SORT: merges each RUNS sorted runs of glsl/top_k.glsl into one, of which
// KEPT pairs remain. An invocation searches the other runs for the pairs that come before its own.
#ifndef ASSEMBLED
#define VEC0 ivec4
#define ELEMENT0 ivec4
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define IN_PIXELS 20  // pairs
#define IN_WIDTH 10  // pairs of a row
#define LENGTH 4  // pairs of a run; the last one of a row may have fewer
#define RUNS 2
#define KEPT 5
#define WIDTH 7  // pairs of a row of the output
#endif
#include "lib/tensor.glsl"

INPUT0(PAIRS)

void main() {
  int pair = PIXEL_INVOCATION;
  if (pair >= IN_PIXELS) return;
  int row = pair / IN_WIDTH, start = row * IN_WIDTH, at = pair - start;
  int own = at / LENGTH * LENGTH, merged = at / (RUNS * LENGTH), rank = at - own;
  int first = merged * (RUNS * LENGTH), end = min(first + RUNS * LENGTH, IN_WIDTH);
  ivec4 v = LOAD(PAIRS, pair);
  for (int run = first; run < end; run += LENGTH) {
    int low = run, high = run == own ? run : min(run + LENGTH, end);
    while (low < high) {
      int middle = (low + high) / 2, key = LOAD(PAIRS, start + middle).x;
      bool is_before = key > v.x || key == v.x && run < own;
      low = is_before ? middle + 1 : low;
      high = is_before ? high : middle;
    }
    rank += low - run;
  }
  if (rank < KEPT) store(0, row * WIDTH + merged * KEPT + rank, v);
}
