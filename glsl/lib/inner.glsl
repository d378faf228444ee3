// The first of two results that a shader computes, as the second one reads it.
#ifndef LIB_INNER
#define LIB_INNER
#ifndef ASSEMBLED
#define IN_SLICES 3  // slices of the first result
#define LAST_LANES 4  // channels of the last of them
#endif
#include "lib/tensor.glsl"

// INNER_EPILOGUE of a slice of the first result, with zero in the lanes past the last channel.
vec4 inner_of(vec4 v, int slice) {
  v = INNER_EPILOGUE(v);
#if LAST_LANES < 4
  v = choose(vec4(0.0), v, lanes_below(slice < IN_SLICES - 1 ? 4 : LAST_LANES));
#endif
  return v;
}
#endif
