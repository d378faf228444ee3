// Reductions that REDUCTION_LANES invocations share. Each reduces the inputs REDUCTION_LANE,
// REDUCTION_LANE + REDUCTION_LANES ..., and JOIN combines what they have.
#ifndef LIB_SHARED
#define LIB_SHARED
#include "lib/tensor.glsl"

// What JOIN combines; the including shader may choose another type.
#ifndef JOINED
#define JOINED OUT_VEC
#endif

#define SUM(a, b) ((a) + (b))

#if REDUCTION_LANES > 1
#define REDUCTION_LANE int(gl_LocalInvocationID.x)
shared JOINED of_lane[2 * REDUCTION_LANES * PIXEL_LANES * SLICE_LANES];

// Gives all lanes of a result the combination of their `v`. Every invocation of the work group must
// get here. A step reads one half of the memory, so that the next may write into the other.
#define JOIN(v, combine) \
  { \
    int at = 2 * int(gl_LocalInvocationIndex); \
    barrier(); \
    for (int apart = 2; apart < 2 * REDUCTION_LANES; apart *= 2) { \
      of_lane[at] = v; \
      barrier(); \
      v = combine(v, of_lane[at ^ apart]); \
      at ^= 1; \
    } \
  }
#else
#define REDUCTION_LANE 0
#define JOIN(v, combine)
#endif
#endif
