#version 310 es
#extension GL_GOOGLE_include_directive : require

// Copies strided elements of the input into a region of the output: RESHAPE, PAD, CONCATENATION ...
//
// An element of the region with coordinates in SIZES is the input's element
// OFFSET + sum of coordinate * STRIDES. A coordinate outside [LOWER, UPPER) is mirrored into it,
// goes on at LOWER or makes the element FILL. Region pixel q is the output's pixel
// q / ROW * OUT_ROW + q % ROW + OUT_PIXEL; region channel 0 is the output's channel OUT_CHANNEL.
#ifndef ASSEMBLED
#define IN_CHANNELS 7  // channels of X
#define IN_PIXELS 60  // pixels of X
#define IN_ELEMENTS 420  // their product
#define REGION_PIXELS 60  // pixels of the region
#define REGION_CHANNELS 7  // channels of the region
#define ROW 60
#define OUT_ROW 60
#define OUT_PIXEL 0
#define OUT_CHANNEL 0
#define SIZES int[2](60, 7)
#define STRIDES int[2](7, 1)
#define HAS_BOUNDS 0  // 1: some coordinates are outside [LOWER, UPPER)
#define LOWER int[2](0, 0)
#define UPPER int[2](60, 7)
#define OFFSET 0
#define MIRROR 0  // 1: without the outermost element; 2: with it again; 3: goes on at LOWER
#define FILLED 0  // 1: FILL is the first element of VALUE; 0: it is 0
#define CONSECUTIVE 0  // 1: elements follow each other in the input as they do in the region
#define WHOLE_TEXELS 0  // 1: a texel's lanes all come from one input texel
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

INPUT0(X)
#if FILLED
INPUT1(VALUE)
#define FILL LOAD(VALUE, 0).x
#else
#define FILL 0
#endif

#if ROLLED
#define LANES(channel) min(REGION_CHANNELS - (channel), 4)
#else
#define LANES(channel) 4
#endif

// A coordinate mirrored into [lower, upper).
int mirrored(int coordinate, int lower, int upper) {
#if MIRROR == 3
  if (coordinate >= upper) coordinate -= upper - lower;
#elif MIRROR
  if (coordinate < lower) coordinate = 2 * lower + 1 - MIRROR - coordinate;
  if (coordinate >= upper) coordinate = 2 * upper - 3 + MIRROR - coordinate;
#endif
  return coordinate;
}

// The input's element for an element of the region, -1 where there is none.
int source(int element) {
  int lower[DIMS] = LOWER, upper[DIMS] = UPPER;
  int at[DIMS] = coordinates_of(element, SIZES);
  bool inside = true;
#pragma unroll
  for (int d = 0; d < DIMS; ++d) {
#if HAS_BOUNDS
    at[d] = mirrored(at[d], lower[d], upper[d]);
    inside = inside && at[d] >= lower[d] && at[d] < upper[d];
#endif
  }
  int index = OFFSET + element_at(at, STRIDES);
  return inside && index < IN_ELEMENTS ? index : -1;
}

void main() {
  int q = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION + OUT_CHANNEL / 4;
  int row = DIVIDED(q, ROW), pixel = row * OUT_ROW + q - row * ROW + OUT_PIXEL;
  int channel = 4 * slice - OUT_CHANNEL;
  if (q >= REGION_PIXELS || channel >= REGION_CHANNELS) return;
  OUT_VEC v = OUT_VEC(FILL);
#if WHOLE_TEXELS
  int element = source(q * REGION_CHANNELS + channel);
  if (element >= 0) {
    int in_pixel = DIVIDED(element, IN_CHANNELS), in_channel = element - in_pixel * IN_CHANNELS;
    v = LOAD(X, texel_of(in_channel, in_pixel, IN_PIXELS));
  }
#elif CONSECUTIVE
  // Elements that follow each other here do so in the input: one division is enough.
  int element = OFFSET + q * REGION_CHANNELS + channel;
  int in_pixel = DIVIDED(element, IN_CHANNELS), in_channel = element - in_pixel * IN_CHANNELS;
  for (int lane = 0; lane < LANES(channel); ++lane) {
    bool inside = channel + lane < REGION_CHANNELS && element + lane < IN_ELEMENTS;
    int texel = inside ? texel_of(in_channel, in_pixel, IN_PIXELS) : 0;
    OUT_VEC loaded = OUT_VEC(LOAD_LANE(X, texel, in_channel % 4));
    v[lane] = inside ? loaded.x : v[lane];
    bool last = in_channel == IN_CHANNELS - 1;
    in_pixel = last ? in_pixel + 1 : in_pixel;
    in_channel = last ? 0 : in_channel + 1;
  }
#else
  for (int lane = 0; lane < LANES(channel); ++lane) {
    bool inside = channel + lane >= 0 && channel + lane < REGION_CHANNELS;
    int element = inside ? source(q * REGION_CHANNELS + channel + lane) : -1;
    int at = max(element, 0), in_pixel = DIVIDED(at, IN_CHANNELS);
    int in_channel = at - in_pixel * IN_CHANNELS;
    OUT_VEC loaded = OUT_VEC(LOAD_CHANNEL(X, in_channel, in_pixel, IN_PIXELS));
    v[lane] = element >= 0 ? loaded.x : v[lane];
  }
#endif
  v = EPILOGUE(v, slice, pixel);
#if PARTIAL && !WHOLE_TEXELS
  if (channel < 0) {
    OUT_VEC before = BEFORE(slice * OUT_PIXELS + pixel);
    v = choose(v, before, lanes_below(-channel));
  }
#endif
  write(slice, pixel, v);
}
