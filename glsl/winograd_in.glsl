#version 310 es
#extension GL_GOOGLE_include_directive : require

// Windows of X, transformed for Winograd's convolution; see ops/lib/winograd.py. An invocation
// computes a row of SIDE numbers of one slice. Number n has the output's slices from n * IN_SLICES on.
#ifndef ASSEMBLED
#define ROWS 6  // SIDE
#define IN_SLICES 3  // slices of X
#define BATCH 1  // images
#define IN_H 10  // rows of X
#define IN_W 6  // columns of X
#define TILES_H 3  // rows of tiles
#define TILES_W 2  // columns of tiles
#define FIRST_LINE 0  // the first row of tiles that the numbers are for
#define PAD_H 1  // padding above X
#define PAD_W 1  // padding to its left
#define COLUMNS 6  // of a tile that are read at once: all, or half of them
#endif
#include "lib/tensor.glsl"
#include "lib/winograd.glsl"

INPUT0(X)

void main() {
  int tile = PIXEL_INVOCATION, part = QUOTIENT(SLICE_INVOCATION, IN_SLICES);
  int slice = SLICE_INVOCATION - part * IN_SLICES;
  if (tile >= OUT_PIXELS || part >= SIDE) return;
  int row_of_tiles = QUOTIENT(tile, TILES_W), left = (tile - row_of_tiles * TILES_W) * EDGE - PAD_W;
  int line = row_of_tiles + FIRST_LINE, image = QUOTIENT(line, TILES_H);
  int top = (line - image * TILES_H) * EDGE - PAD_H;
  int plane = (slice * BATCH + image) * IN_H;
#if COLUMNS == SIDE
  int column[SIDE];
#pragma unroll
  for (int j = 0; j < SIDE; ++j) column[j] = uint(left + j) < uint(IN_W) ? left + j : OUTSIDE;
#define PIXEL(row, j) max(row + column[j], OUTSIDE)
#else
#define PIXEL(row, j) (uint(left + (j)) < uint(IN_W) ? row + left + (j) : OUTSIDE)
#endif
  vec4 v[SIDE];
#pragma unroll
  for (int j = 0; j < SIDE; ++j) v[j] = vec4(0.0);
#if COLUMNS < SIDE
  for (int i = 0; i < ROWS; ++i) {
    float factor = input_factor(part, i);
    int row = uint(top + i) < uint(IN_H) ? (plane + top + i) * IN_W : OUTSIDE;
#pragma unroll
    for (int j = 3; j < SIDE; ++j) v[j] += factor * LOAD_OR_ZERO(X, PIXEL(row, j));
  }
#endif
  for (int i = 0; i < ROWS; ++i) {
    float factor = input_factor(part, i);
    int row = uint(top + i) < uint(IN_H) ? (plane + top + i) * IN_W : OUTSIDE;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) v[j] += factor * LOAD_OR_ZERO(X, PIXEL(row, j));
  }
  transform_inputs(v);
#pragma unroll
  for (int j = 0; j < SIDE; ++j) store((part * SIDE + j) * IN_SLICES + slice, tile, v[j]);
}
