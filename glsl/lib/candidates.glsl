// Boxes that a suppression selects from, by their scores, as glsl/non_max_suppression.glsl keeps them
// in texels of integers:
//
// - of each class its keys, four boxes to a texel;
// - then for each class the best of them: its key, the box, and how many were selected before;
// - then each selection: its key, the class and the box;
// - then the number of selections, and their maximum number.
#ifndef LIB_CANDIDATES
#define LIB_CANDIDATES
#ifndef ASSEMBLED
#define CLASSES 3
#define BOXES 10
#define MOST 5  // selections
#endif
#include "lib/keys.glsl"

#define BLOCKS ((BOXES + 3) / 4)
#define HEADS (CLASSES * BLOCKS)
#define SELECTIONS (HEADS + CLASSES)
#define TOTAL (SELECTIONS + MOST)

float score_of(int key) { return intBitsToFloat(key < 0 ? NONE - key : key); }
#endif
