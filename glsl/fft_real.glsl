#version 310 es
#extension GL_GOOGLE_include_directive : require

// Transforms of real numbers from transforms of complex numbers, whose real parts are the even
// numbers and whose imaginary parts are the odd ones; see fft_stage.glsl. The output has the real
// parts of all rows, then the imaginary ones.
#ifndef ASSEMBLED
#define POINTS 256  // complex numbers of a row
#define ROWS 11
#define GROUPS 3  // of four rows
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(TABLE)

float lane_of(vec4 v, int lane) {
  vec2 pair = lane < 2 ? v.xy : v.zw;
  return (lane & 1) == 0 ? pair.x : pair.y;
}

void main() {
  int row = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (row >= ROWS || slice >= OUT_SLICES) return;
  int first = row / 4 * POINTS, lane = row % 4;
  vec4 re = vec4(0.0), im = vec4(0.0);
  for (int i = 0; i < 4; ++i) {
    int k = min(4 * slice + i, POINTS);
    int a = first + (k < POINTS ? k : 0), b = first + (k > 0 ? POINTS - k : 0);
    vec2 v = vec2(lane_of(LOAD(X, a), lane), lane_of(LOAD(X, GROUPS * POINTS + a), lane));
    vec2 w = vec2(lane_of(LOAD(X, b), lane), -lane_of(LOAD(X, GROUPS * POINTS + b), lane));
    vec2 even = 0.5 * (v + w), odd = 0.5 * (v - w), turn = LOAD(TABLE, k).xy;
    re[i] = even.x + odd.y * turn.x - odd.x * turn.y;
    im[i] = even.y - odd.x * turn.x - odd.y * turn.y;
  }
  store(slice, row, re);
  store(slice, ROWS + row, im);
}
