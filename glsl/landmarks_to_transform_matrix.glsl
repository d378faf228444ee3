#version 310 es
#extension GL_GOOGLE_include_directive : require

// Landmarks2TransformMatrix: the matrix from the pixels of a crop of CROP_H by CROP_W to pixels of the
// picture that landmarks X are in. The crop is the box around SUBSET, SCALE times as large, turned so
// that the line from LEFT to RIGHT has the angle TARGET in it.
#ifndef ASSEMBLED
#define SUBSET int[3](61, 146, 91)
#define SUBSET_SIZE 3
#define LEFT 61
#define RIGHT 291
#define TARGET_COS 1.0
#define TARGET_SIN 0.0
#define CROP_H 16.0
#define CROP_W 16.0
#define SCALE_X 1.5
#define SCALE_Y 1.5
#endif
#include "lib/tensor.glsl"

INPUT0(X)

void main() {
  int subset[SUBSET_SIZE] = SUBSET;  // NVIDIA 580.159 crashes if it is const
  int row = PIXEL_INVOCATION;
  if (row >= OUT_PIXELS) return;
  vec2 line = LOAD(X, RIGHT).xy - LOAD(X, LEFT).xy;
  float size = length(line);
  line = size > 0.0 ? line / size : vec2(1.0, 0.0);
  // Cosine and sine of the angle by which the line is turned: the matrix turns it back.
  vec2 turn =
      vec2(TARGET_COS * line.x + TARGET_SIN * line.y, TARGET_SIN * line.x - TARGET_COS * line.y);
  mat2 upright = mat2(turn.x, turn.y, -turn.y, turn.x);
  vec2 low = upright * LOAD(X, subset[0]).xy, high = low;
  for (int i = 1; i < SUBSET_SIZE; ++i) {
    vec2 at = upright * LOAD(X, subset[i]).xy;
    low = min(low, at);
    high = max(high, at);
  }
  vec2 centre = 0.5 * (low + high) * upright;
  vec2 scale = vec2(SCALE_X, SCALE_Y) * (high - low) / vec2(CROP_W, CROP_H);
  vec4 v = vec4(0.0);
  v[row] = 1.0;
  if (row < 2) {
    vec2 axes = scale * vec2(upright[row]);
    v = vec4(axes, 0.0, centre[row] - 0.5 * dot(axes, vec2(CROP_W, CROP_H)));
  }
  store(0, row, v);
}
