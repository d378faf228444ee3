// Tensors: PHWC4 texels, read through INPUT0..4 and LOAD, written through store().
//
// See lib/defaults.glsl for the macros that every shader is given.
#ifndef LIB_TENSOR
#define LIB_TENSOR
#include "lib/defaults.glsl"

#if CHAINED
// The chain has the blocks and images. Each input's name, and OUT, is (how to read, name, offset).
#define INPUT0(name)
#define INPUT1(name)
#define INPUT2(name)
#define INPUT3(name)
#define INPUT4(name)
#define LOAD(name, index) unpacked(TEXEL(name, index))
#define LOAD_OR_ZERO(name, index) choose(vec4(0.0), LOAD(name, max(index, 0)), bvec4((index) >= 0))
#elif IMAGE_READS
#define INPUT0(name) layout(FORMAT0, binding = 0) readonly uniform highp IMAGE0 name;
#define INPUT1(name) layout(FORMAT1, binding = 1) readonly uniform highp IMAGE1 name;
#define INPUT2(name) layout(FORMAT2, binding = 2) readonly uniform highp IMAGE2 name;
#define INPUT3(name) layout(FORMAT3, binding = 3) readonly uniform highp IMAGE3 name;
#define INPUT4(name) layout(FORMAT4, binding = 4) readonly uniform highp IMAGE4 name;
#define LOAD(name, index) imageLoad(name, index)
// An image load outside the buffer is zero by the specification.
#define LOAD_OR_ZERO(name, index) imageLoad(name, index)
#else
#define INPUT0(name) \
  layout(std430, binding = 1) readonly buffer Input0 { ELEMENT0 name[]; };
#define INPUT1(name) \
  layout(std430, binding = 2) readonly buffer Input1 { ELEMENT1 name[]; };
#define INPUT2(name) \
  layout(std430, binding = 3) readonly buffer Input2 { ELEMENT2 name[]; };
#define INPUT3(name) \
  layout(std430, binding = 4) readonly buffer Input3 { ELEMENT3 name[]; };
#define INPUT4(name) \
  layout(std430, binding = 5) readonly buffer Input4 { ELEMENT4 name[]; };
#define LOAD(name, index) unpacked(name[index])
#define LOAD_OR_ZERO(name, index) choose(vec4(0.0), LOAD(name, max(index, 0)), bvec4((index) >= 0))
#endif

// One lane of a texel: of a storage block, only its word is read.
#if CHAINED || IMAGE_READS || HALF_READS
#define LOAD_LANE(name, index, lane) LOAD(name, index)[lane]
#else
#define LOAD_LANE(name, index, lane) name[index][lane]
#endif

#define LARGEST_OF_4(load, name, index, row) \
  max(max(load(name, index), load(name, (index) + 1)), \
      max(load(name, (index) + (row)), load(name, (index) + (row) + 1)))

// A texel as it is computed with, from the way it is stored.
vec4 unpacked(vec4 texel) { return texel; }
ivec4 unpacked(ivec4 texel) { return texel; }
vec4 unpacked(uvec2 texel) { return vec4(unpackHalf2x16(texel.x), unpackHalf2x16(texel.y)); }

// a / b for 0 <= a < 2^20 and 0 < b: llvmpipe divides integers lane by lane. (a + 0.5) / b is at
// least 0.5 / b away from an integer, more than its rounding error.
#define FLOAT_QUOTIENT(a, b) int((float(a) + 0.5) / float(b))
#if SIZE_UNIFORMS
#define QUOTIENT(a, b) FLOAT_QUOTIENT(a, b)
#else
#define QUOTIENT(a, b) ((a) / (b))
#endif

// a / b for 0 <= a and 0 < b.
#if FLOAT_QUOTIENTS
#define DIVIDED(a, b) FLOAT_QUOTIENT(a, b)
#else
#define DIVIDED(a, b) ((a) / (b))
#endif

#define OUTSIDE (-0x40000000)  // plus any texel index: still negative

#include "lib/elementwise.glsl"

// Work groups of PIXEL_LANES pixels by SLICE_LANES slices, each with REDUCTION_LANES invocations.
#if CHAINED
#define PIXEL_INVOCATION chain_pixel
#define SLICE_INVOCATION chain_slice
#define PIXEL_GROUP (chain_pixel / PIXEL_LANES)
#define PIXEL_LANE (chain_pixel % PIXEL_LANES)
#define SLICE_LANE (chain_slice % SLICE_LANES)
#else
#if REDUCTION_LANES > 1
layout(local_size_x = REDUCTION_LANES, local_size_y = PIXEL_LANES, local_size_z = SLICE_LANES) in;
#define PIXEL_AXIS y
#define SLICE_AXIS z
#elif SLICES_IN_X
layout(local_size_x = SLICE_LANES, local_size_y = PIXEL_LANES) in;
#define PIXEL_AXIS y
#define SLICE_AXIS x
#else
layout(local_size_x = PIXEL_LANES, local_size_y = SLICE_LANES) in;
#define PIXEL_AXIS x
#define SLICE_AXIS y
#endif
#if PIXEL_ROWS > 1
#define PIXEL_GROUP \
  (int(gl_WorkGroupID.PIXEL_AXIS) + int(gl_WorkGroupID.z) * int(gl_NumWorkGroups.PIXEL_AXIS))
#define PIXEL_INVOCATION (PIXEL_GROUP * PIXEL_LANES + PIXEL_LANE)
#else
#define PIXEL_GROUP int(gl_WorkGroupID.PIXEL_AXIS)
#define PIXEL_INVOCATION int(gl_GlobalInvocationID.PIXEL_AXIS)
#endif
#if SLICE_ROWS > 1
#define SLICE_GROUP \
  (int(gl_WorkGroupID.SLICE_AXIS) + int(gl_WorkGroupID.z) * int(gl_NumWorkGroups.SLICE_AXIS))
#define SLICE_INVOCATION (SLICE_GROUP * SLICE_LANES + SLICE_LANE)
#else
#define SLICE_GROUP int(gl_WorkGroupID.SLICE_AXIS)
#define SLICE_INVOCATION int(gl_GlobalInvocationID.SLICE_AXIS)
#endif
#define PIXEL_LANE int(gl_LocalInvocationID.PIXEL_AXIS)
#define SLICE_LANE int(gl_LocalInvocationID.SLICE_AXIS)
#endif

// The first of `count` pixels of an invocation; the others lie PIXEL_LANES apart.
#define FIRST_PIXEL(count) (PIXEL_GROUP * (PIXEL_LANES * (count)) + PIXEL_LANE)

#if CHAINED
#define OUT_TEXEL(index) TEXEL(OUT, index)
#elif IMAGE_WRITES
// Images of rgba32f are not read and written through one name.
layout(OUT_FORMAT, binding = OUT_UNIT) writeonly uniform highp OUT_IMAGE out_texels;
#define PUT(index, v) imageStore(out_texels, index, v)
#if PARTIAL
layout(OUT_FORMAT, binding = BEFORE_UNIT) readonly uniform highp OUT_IMAGE texels_before;
#define BEFORE(index) imageLoad(texels_before, index)
#endif
#else
#define OUT_TEXEL(index) out_texels[index]
#if PARTIAL
layout(std430, binding = 0) buffer Output { OUT_ELEMENT out_texels[]; };
#else
layout(std430, binding = 0) writeonly buffer Output { OUT_ELEMENT out_texels[]; };
#endif
#endif
#if !IMAGE_WRITES
#define PUT(index, v) OUT_TEXEL(index) = v
#define BEFORE(index) unpacked(OUT_TEXEL(index))
#endif

EPILOGUE_INPUTS

#define OUT_SLICES ((OUT_CHANNELS + 3) / 4)

bvec4 lanes_below(int count) { return lessThan(ivec4(0, 1, 2, 3), ivec4(count)); }

// Writes one texel of the output, with zero in the lanes past the last channel.
void write(int slice, int pixel, OUT_VEC v) {
#if !OUT_WHOLE
  v = choose(OUT_VEC(0), v, lanes_below(OUT_CHANNELS - 4 * slice));
#endif
#if OUT_HALF
  PUT(slice * OUT_PIXELS + pixel, uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)));
#else
  PUT(slice * OUT_PIXELS + pixel, v);
#endif
}

// Writes the epilogue of `v`.
void store(int slice, int pixel, OUT_VEC v) { write(slice, pixel, EPILOGUE(v, slice, pixel)); }
#endif
