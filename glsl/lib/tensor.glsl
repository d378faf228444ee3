// Tensors: PHWC4 texels, read through INPUT0..4 and LOAD, written through store().
//
// A shader gets OUT_CHANNELS and OUT_PIXELS of its output, IMAGE_READS (read through buffer
// textures, else through storage blocks), and the element-wise functions fused
// into it: EPILOGUE(v, slice, pixel) and the EPILOGUE_INPUTS that it loads.

#if IMAGE_READS
#define INPUT0(name) layout(rgba32f, binding = 0) readonly uniform highp imageBuffer name;
#define INPUT1(name) layout(rgba32f, binding = 1) readonly uniform highp imageBuffer name;
#define INPUT2(name) layout(rgba32f, binding = 2) readonly uniform highp imageBuffer name;
#define INPUT3(name) layout(rgba32f, binding = 3) readonly uniform highp imageBuffer name;
#define INPUT4(name) layout(rgba32f, binding = 4) readonly uniform highp imageBuffer name;
#define LOAD(name, index) imageLoad(name, index)
// An image load outside the buffer is zero by the specification.
#define LOAD_OR_ZERO(name, index) imageLoad(name, index)
#else
#define INPUT0(name) layout(std430, binding = 1) readonly buffer Input0 { vec4 name[]; };
#define INPUT1(name) layout(std430, binding = 2) readonly buffer Input1 { vec4 name[]; };
#define INPUT2(name) layout(std430, binding = 3) readonly buffer Input2 { vec4 name[]; };
#define INPUT3(name) layout(std430, binding = 4) readonly buffer Input3 { vec4 name[]; };
#define INPUT4(name) layout(std430, binding = 5) readonly buffer Input4 { vec4 name[]; };
#define LOAD(name, index) name[index]
#define LOAD_OR_ZERO(name, index) ((index) < 0 ? vec4(0.0) : name[max(index, 0)])
#endif

#define OUTSIDE (-0x40000000)  // plus any texel index: still negative

#include "lib/elementwise.glsl"

// Work groups of PIXEL_LANES pixels by SLICE_LANES slices.
#if SLICES_IN_X
layout(local_size_x = SLICE_LANES, local_size_y = PIXEL_LANES) in;
#define PIXEL_AXIS y
#define SLICE_AXIS x
#else
layout(local_size_x = PIXEL_LANES, local_size_y = SLICE_LANES) in;
#define PIXEL_AXIS x
#define SLICE_AXIS y
#endif
#define PIXEL_INVOCATION int(gl_GlobalInvocationID.PIXEL_AXIS)
#define SLICE_INVOCATION int(gl_GlobalInvocationID.SLICE_AXIS)

// The first of `count` pixels of an invocation; the others lie PIXEL_LANES apart.
#define FIRST_PIXEL(count) (int(gl_WorkGroupID.PIXEL_AXIS) * (PIXEL_LANES * (count)) + int(gl_LocalInvocationID.PIXEL_AXIS))

#if PARTIAL
layout(std430, binding = 0) buffer Output { vec4 out_texels[]; };
#else
layout(std430, binding = 0) writeonly buffer Output { vec4 out_texels[]; };
#endif

EPILOGUE_INPUTS

const int OUT_SLICES = (OUT_CHANNELS + 3) / 4;

bvec4 lanes_below(int count) { return lessThan(ivec4(0, 1, 2, 3), ivec4(count)); }

// Writes one texel of the output; lanes past the last channel become zero.
void store(int slice, int pixel, vec4 v) {
  v = EPILOGUE(v, slice, pixel);
#if OUT_CHANNELS % 4 != 0
  v = mix(vec4(0.0), v, lanes_below(OUT_CHANNELS - 4 * slice));
#endif
  out_texels[slice * OUT_PIXELS + pixel] = v;
}
