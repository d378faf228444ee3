#version 310 es
#extension GL_GOOGLE_include_directive : require

// Y = FUNCTION(A), FUNCTION(A, B) or FUNCTION(A, B, C), with numpy's broadcasting; PER_LANE pixels
// an invocation.
#ifndef ASSEMBLED
#define FUNCTION ADD  // of lib/elementwise.glsl; empty for one operand as it is
#define OPERANDS 2  // 1 to 3; what describes B and C is given only if they are operands
#define PER_LANE 4  // pixels of an invocation
#define SIZES int[2](10, 6)  // the coordinates of an output pixel
#define A_SAME_PIXELS 1  // 1: an output pixel belongs to the same pixel of A
#define A_STRIDES int[2](6, 1)  // otherwise: to the sum of coordinate * stride
#define A_PIXELS 60  // pixels of A
#define A_ONE_CHANNEL 0  // 1: A's only channel belongs to all of the output's
#undef A_UNIT  // given where LiteRT compares in 256ths; see in_256ths
#define B_SAME_PIXELS 0
#define B_STRIDES int[2](0, 1)
#define B_PIXELS 6
#define B_ONE_CHANNEL 0
#undef B_UNIT
#undef C_SAME_PIXELS
#undef C_STRIDES
#undef C_PIXELS
#undef C_ONE_CHANNEL
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

// Defines `load`, which reads the texel of an operand for a slice and a pixel of the output.
#define LOADER(VEC, load, name, same_pixels, strides, pixels, one_channel) \
  VEC load(int slice, int pixel) { \
    int index = same_pixels == 1 ? pixel : element_at(coordinates_of(pixel, SIZES), strides); \
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
