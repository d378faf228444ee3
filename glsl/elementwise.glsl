// Y = FUNCTION(A) or FUNCTION(A, B), with numpy's broadcasting; PER_LANE pixels an invocation.
#include "lib/tensor.glsl"

INPUT0(A)
#if OPERANDS == 2
INPUT1(B)
#endif

#ifdef DIMS
// Texel of an operand at a pixel of the output: the pixel's coordinates in SIZES times STRIDES.
int broadcast(int pixel, int strides[DIMS]) {
  const int sizes[DIMS] = SIZES;
  int index = 0;
  for (int d = DIMS - 1; d >= 0; --d) {
    index += pixel % sizes[d] * strides[d];
    pixel /= sizes[d];
  }
  return index;
}
#endif

VEC0 load_a(int slice, int pixel) {
#if A_SAME_PIXELS
  int index = pixel;
#else
  int index = broadcast(pixel, A_STRIDES);
#endif
#if A_ONE_CHANNEL
  return LOAD(A, index).xxxx;
#else
  return LOAD(A, slice * A_PIXELS + index);
#endif
}

#if OPERANDS == 2
VEC1 load_b(int slice, int pixel) {
#if B_SAME_PIXELS
  int index = pixel;
#else
  int index = broadcast(pixel, B_STRIDES);
#endif
#if B_ONE_CHANNEL
  return LOAD(B, index).xxxx;
#else
  return LOAD(B, slice * B_PIXELS + index);
#endif
}
#endif

void main() {
  int first = FIRST_PIXEL(PER_LANE);
  int slice = SLICE_INVOCATION;
  for (int i = 0; i < PER_LANE; ++i) {
    int pixel = first + i * PIXEL_LANES;
    if (pixel < OUT_PIXELS && slice < OUT_SLICES) {
#if OPERANDS == 2
      store(slice, pixel, FUNCTION(load_a(slice, pixel), load_b(slice, pixel)));
#else
      store(slice, pixel, load_a(slice, pixel));
#endif
    }
  }
}
