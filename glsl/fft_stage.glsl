#version 310 es
#extension GL_GOOGLE_include_directive : require

// One stage of Fourier transforms of POINTS complex numbers (Stockham's, which needs no reordering).
// Each lane is a transform: slice 0 has the real parts of four transforms, slice 1 the imaginary
// ones, and a pixel each point. TABLE: the cosine and the sine of each multiple of an angle.
#ifndef ASSEMBLED
#define RADIX 4  // or 2
#define POINTS 256
#define SPAN 16  // points of the transforms that are complete before the stage
#define TWIDDLE 4  // multiples of the table's angle that a turn has, by SPAN * RADIX
#define GROUPS 3  // of four transforms
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(TABLE)

void main() {
  int parts = POINTS / RADIX;
  int group = PIXEL_INVOCATION / parts, i = PIXEL_INVOCATION % parts, k = i % SPAN;
  if (group >= GROUPS) return;
  vec4 re[RADIX], im[RADIX];
#pragma unroll
  for (int j = 0; j < RADIX; ++j) {
    int pixel = group * POINTS + i + j * parts;
    vec4 x = LOAD(X, pixel), y = LOAD(X, OUT_PIXELS + pixel), turn = LOAD(TABLE, j * k * TWIDDLE);
    re[j] = x * turn.x + y * turn.y;
    im[j] = y * turn.x - x * turn.y;
  }
  int to = group * POINTS + (i - k) * RADIX + k;
#if RADIX == 2
  store(0, to, re[0] + re[1]);
  store(1, to, im[0] + im[1]);
  store(0, to + SPAN, re[0] - re[1]);
  store(1, to + SPAN, im[0] - im[1]);
#else
  vec4 a = re[0] + re[2], b = im[0] + im[2], c = re[1] + re[3], d = im[1] + im[3];
  store(0, to, a + c);
  store(1, to, b + d);
  store(0, to + 2 * SPAN, a - c);
  store(1, to + 2 * SPAN, b - d);
  a = re[0] - re[2], b = im[0] - im[2], c = re[1] - re[3], d = im[1] - im[3];
  store(0, to + SPAN, a + d);
  store(1, to + SPAN, b - c);
  store(0, to + 3 * SPAN, a - d);
  store(1, to + 3 * SPAN, b + c);
#endif
}
