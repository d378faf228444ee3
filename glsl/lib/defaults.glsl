// What the assembler (gles_delegate/shaders) defines for every shader.
//
// A block under #ifndef ASSEMBLED is for tools that read a file on its own: it declares each macro
// with an example of its value. #undef declares one that some dispatches leave undefined. The
// assembler leaves these blocks out, so a define that a dispatch lacks is an undeclared identifier.
#ifndef ASSEMBLED
#define OUT_CHANNELS 7  // the output's channels
#define OUT_PIXELS 60  // the product of its other dimensions
#define OUT_WHOLE 0  // 1: all of its slices have four channels
#ifndef OUT_VEC
#define OUT_VEC vec4  // its texels as they are computed: vec4 or ivec4
#define OUT_ELEMENT vec4  // and as they are stored: also uvec2, four float16
#endif
#define OUT_HALF 0  // 1: stored as float16
#ifndef PARTIAL
#define PARTIAL 0  // 1: the dispatch writes only a part of the output
#endif

// Inputs 0 to 4: texels as they are computed and as they are stored.
#ifndef VEC0
#define VEC0 vec4
#define ELEMENT0 vec4
#endif
#ifndef VEC1
#define VEC1 vec4
#define ELEMENT1 vec4
#endif
#define VEC2 vec4
#define ELEMENT2 vec4
#define VEC3 vec4
#define ELEMENT3 vec4
#define VEC4 vec4
#define ELEMENT4 vec4
#define HALF_READS 0  // 1: some are stored as float16
#define IMAGE_READS 0  // 1: inputs are buffer textures of these formats; 0: storage blocks
#undef FORMAT0
#undef IMAGE0
#undef FORMAT1
#undef IMAGE1
#undef FORMAT2
#undef IMAGE2
#undef FORMAT3
#undef IMAGE3
#undef FORMAT4
#undef IMAGE4

#define IMAGE_WRITES 0  // 1: the output is a buffer texture of this format, at this unit
#undef OUT_FORMAT
#undef OUT_IMAGE
#undef OUT_UNIT
#undef BEFORE_UNIT  // to read it at, too

#define CHAINED 0  // 1: the dispatch is one of several that a work group computes in sequence
#define PIXEL_LANES 8  // a work group's invocations along the pixels
#define SLICE_LANES 8  // and along the slices
#define SLICES_IN_X 0  // 1: the slices lie along x; 0: the pixels
#define ROLLED 0  // 1: a short loop runs as fast as its unrolled code, and compiles in less time
#define REDUCTION_LANES 1  // and for each result; if several, they lie along x, pixels along y
#define PIXEL_ROWS 1  // work groups along z, among which those along the pixels are divided
#define SLICE_ROWS 1  // or those along the slices
#undef SIMD_LANES  // llvmpipe's vector width: only distinguishes programs in its shader cache
#define SLICE_SUMS 0  // 1: products of a slice with weights are added up before they are added
#define PRODUCT_PRECISION highp  // of these; mediump may be float16
#define SIZE_UNIFORMS 0  // 1: sizes are elements of a uniform array; 0: constants
#define FLOAT_QUOTIENTS 0  // 1: so are divisors, and tensors have less than 2^20 elements

#define EPILOGUE_INPUTS  // declares the inputs of the epilogue
#define EPILOGUE(v, slice, pixel) (v)  // applies the fused element-wise functions to a result
#define INNER_EPILOGUE(v) (v)  // the same for the first of two results
#endif
