#version 310 es
#extension GL_GOOGLE_include_directive : require

// The outputs of Winograd's convolution, from the sums X of each tile; see ops/lib/winograd.py. An
// invocation computes a row of EDGE pixels of one slice.
#ifndef ASSEMBLED
#define ROWS 6  // SIDE
#define IN_PIXELS 6  // tiles
#define OUT_H 10  // rows of the output
#define OUT_W 6  // columns of the output
#define TILES_H 3  // rows of tiles
#define TILES_W 2  // columns of tiles
#define FIRST_LINE 0  // the first row of tiles that X is for
#define COLUMNS 6  // of a tile that are read at once: all, or half of them
#endif
#include "lib/tensor.glsl"
#include "lib/winograd.glsl"

INPUT0(X)

void main() {
  int tile = PIXEL_INVOCATION, part = QUOTIENT(SLICE_INVOCATION, OUT_SLICES);
  int slice = SLICE_INVOCATION - part * OUT_SLICES;
  if (tile >= IN_PIXELS || part >= EDGE) return;
  int row_of_tiles = QUOTIENT(tile, TILES_W), left = (tile - row_of_tiles * TILES_W) * EDGE;
  int line = row_of_tiles + FIRST_LINE, image = QUOTIENT(line, TILES_H);
  int row = (line - image * TILES_H) * EDGE + part;
  int step = OUT_SLICES * IN_PIXELS;
  vec4 m[SIDE];
#pragma unroll
  for (int j = 0; j < SIDE; ++j) m[j] = vec4(0.0);
#if COLUMNS < SIDE
  for (int i = 0; i < ROWS; ++i) {
    float factor = sum_factor(part, i);
    int at = (i * SIDE * OUT_SLICES + slice) * IN_PIXELS + tile;
#pragma unroll
    for (int j = 3; j < SIDE; ++j) m[j] += factor * LOAD(X, at + j * step);
  }
#endif
  for (int i = 0; i < ROWS; ++i) {
    float factor = sum_factor(part, i);
    int at = (i * SIDE * OUT_SLICES + slice) * IN_PIXELS + tile;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) m[j] += factor * LOAD(X, at + j * step);
  }
  transform_sums(m);
  int pixel = (image * OUT_H + row) * OUT_W + left;
#pragma unroll
  for (int j = 0; j < EDGE; ++j)
    if (row < OUT_H && left + j < OUT_W) store(slice, pixel + j, m[j]);
}
