#version 310 es
#extension GL_GOOGLE_include_directive : require

// One FIELD of the boxes that glsl/non_max_suppression.glsl selected, zeros after the last of them.
#ifndef ASSEMBLED
#define VEC0 ivec4
#define ELEMENT0 ivec4
#define FIELD 1  // 0: corners; 1: class; 2: score; 3: index; 4: how many boxes there are
#define PER_BOX 3  // elements for each box: of its best classes
#define RANKS 2  // of these PER_BOX, the others are zero; 0: the class in which it was selected
#define LABELS 3  // classes that are ranked
#define FIRST_CLASS 1  // of them, in the scores of a box
#define SCORES_PER_BOX 4
#define SCORES_CHANNELS 4  // channels of SCORES
#define SCORES_PIXELS 10  // pixels of SCORES
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"
#include "lib/candidates.glsl"

INPUT0(STATE)
#if FIELD == 0
INPUT1(CORNERS)
#elif RANKS
INPUT1(SCORES)

float score(int box, int label) {
  int element = box * SCORES_PER_BOX + FIRST_CLASS + label;
  return LOAD_ELEMENT(SCORES, element, SCORES_CHANNELS, SCORES_PIXELS);
}

// A heap of labels, the lowest score on top. std::partial_sort of libstdc++ keeps such a one, so that
// equal scores come out in its order.
int heap[RANKS];

bool is_above(int box, int a, int b) { return score(box, a) > score(box, b); }

// Fills the hole at `top` of a heap of `size` with `label`.
void fill(int box, int top, int size, int label) {
  int hole = top, child = 2 * top + 2;
  for (; child <= size; child = 2 * hole + 2) {
    if (child == size || is_above(box, heap[child], heap[child - 1])) --child;
    heap[hole] = heap[child];
    hole = child;
  }
  while (hole > top) {
    int parent = (hole - 1) / 2;
    if (!is_above(box, heap[parent], label)) break;
    heap[hole] = heap[parent];
    hole = parent;
  }
  heap[hole] = label;
}

void rank_labels(int box) {
  for (int i = 0; i < RANKS; ++i) heap[i] = i;
  for (int i = RANKS / 2 - 1; i >= 0; --i) fill(box, i, RANKS, heap[i]);
  for (int i = RANKS; i < LABELS; ++i)
    if (is_above(box, i, heap[0])) fill(box, 0, RANKS, i);
  for (int i = RANKS - 1; i > 0; --i) {
    int label = heap[i];
    heap[i] = heap[0];
    fill(box, 0, i, label);
  }
}
#endif

ivec4 selected(int n) { return n < MOST ? LOAD(STATE, SELECTIONS + n) : ivec4(NONE); }

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC v = OUT_VEC(0);
#if FIELD == 4
  v.x = OUT_VEC(LOAD(STATE, TOTAL)).x;
#elif FIELD == 0
  ivec4 selection = selected(pixel / PER_BOX);
  if (selection.x != NONE && (RANKS == 0 || pixel % PER_BOX < RANKS))
    v = LOAD(CORNERS, selection.z);
#else
  for (int i = 0; i < 4 && 4 * slice + i < OUT_CHANNELS; ++i) {
    int element = 4 * slice + i, place = element % PER_BOX;
    ivec4 selection = selected(element / PER_BOX);
    if (selection.x == NONE) break;
#if RANKS
    if (i == 0 || place == 0) rank_labels(selection.z);
    if (place < RANKS) v[i] = FIELD == 1 ? float(heap[place]) : score(selection.z, heap[place]);
#elif FIELD == 1
    v[i] = float(selection.y);
#elif FIELD == 2
    v[i] = score_of(selection.x);
#else
    v[i] = selection.z;
#endif
  }
#endif
  store(slice, pixel, v);
}
