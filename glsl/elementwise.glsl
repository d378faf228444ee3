// Y = FUNCTION(A), FUNCTION(A, B) or FUNCTION(A, B, C), with numpy's broadcasting; PER_LANE pixels
// an invocation. FUNCTION may be empty, for one operand as it is. Operands that LiteRT compares in
// 256ths have their A_UNIT and B_UNIT.
#include "lib/tensor.glsl"

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

// Defines `load`, which reads the texel of an operand for a slice and a pixel of the output.
#define LOADER(VEC, load, name, same_pixels, strides, pixels, one_channel) \
  VEC load(int slice, int pixel) { \
    int index = same_pixels == 1 ? pixel : broadcast(pixel, strides); \
    return one_channel == 1 ? LOAD(name, index).xxxx : LOAD(name, slice * pixels + index); \
  }

INPUT0(A)
LOADER(VEC0, load_a, A, A_SAME_PIXELS, A_STRIDES, A_PIXELS, A_ONE_CHANNEL)
#ifdef A_UNIT
#define OPERAND_A in_256ths(load_a(slice, pixel), A_UNIT)
#else
#define OPERAND_A load_a(slice, pixel)
#endif

#if OPERANDS >= 2
INPUT1(B)
LOADER(VEC1, load_b, B, B_SAME_PIXELS, B_STRIDES, B_PIXELS, B_ONE_CHANNEL)
#ifdef B_UNIT
#define OPERAND_B , in_256ths(load_b(slice, pixel), B_UNIT)
#else
#define OPERAND_B , load_b(slice, pixel)
#endif
#else
#define OPERAND_B
#endif

#if OPERANDS >= 3
INPUT2(C)
LOADER(VEC2, load_c, C, C_SAME_PIXELS, C_STRIDES, C_PIXELS, C_ONE_CHANNEL)
#define OPERAND_C , load_c(slice, pixel)
#else
#define OPERAND_C
#endif

void main() {
  int first = FIRST_PIXEL(PER_LANE);
  int slice = SLICE_INVOCATION;
#pragma unroll(gpu)
  for (int i = 0; i < PER_LANE; ++i) {
    int pixel = first + i * PIXEL_LANES;
    if (pixel < OUT_PIXELS && slice < OUT_SLICES)
      store(slice, pixel, FUNCTION(OPERAND_A OPERAND_B OPERAND_C));
  }
}
