// Copies strided elements of the input into a region of the output: RESHAPE, PAD, CONCATENATION ...
//
// The region has REGION_PIXELS pixels of REGION_CHANNELS channels; its elements, counted with the
// channels fastest, have coordinates in SIZES. An element is the input's element (same count)
// OFFSET + sum of coordinate * STRIDES. A coordinate outside [LOWER, UPPER) is mirrored there, by
// MIRROR 1 without and by 2 with the outermost element again, or by 0 makes the element FILL.
// Region pixel q is the output's pixel q / ROW * OUT_ROW + q % ROW + OUT_PIXEL; region channel 0 is
// the output's channel OUT_CHANNEL.
#include "lib/tensor.glsl"

INPUT0(X)
#if FILLED
INPUT1(VALUE)
#define FILL LOAD(VALUE, 0).x
#else
#define FILL 0
#endif

VEC0 fetch(int pixel, int channel) { return LOAD(X, channel / 4 * IN_PIXELS + pixel); }

// The input's element for an element of the region, -1 where there is none.
int source(int element) {
  const int sizes[DIMS] = SIZES, strides[DIMS] = STRIDES, lower[DIMS] = LOWER, upper[DIMS] = UPPER;
  int index = OFFSET;
  bool inside = true;
  for (int d = DIMS - 1; d >= 0; --d) {
    int coordinate = d == 0 ? element : element % sizes[d];
    element /= sizes[d];
#if MIRROR
    if (coordinate < lower[d]) coordinate = 2 * lower[d] + 1 - MIRROR - coordinate;
    if (coordinate >= upper[d]) coordinate = 2 * upper[d] - 3 + MIRROR - coordinate;
#endif
    index += coordinate * strides[d];
    inside = inside && coordinate >= lower[d] && coordinate < upper[d];
  }
  return inside && index < IN_ELEMENTS ? index : -1;
}
void main() {
  int q = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION + OUT_CHANNEL / 4;
  int pixel = q / ROW * OUT_ROW + q % ROW + OUT_PIXEL;
  if (q >= REGION_PIXELS || slice >= OUT_SLICES) return;
  OUT_VEC v = OUT_VEC(FILL);
  int channel = 4 * slice - OUT_CHANNEL;
#if WHOLE_TEXELS
  int element = source(q * REGION_CHANNELS + channel);
  if (element >= 0) v = fetch(element / IN_CHANNELS, element % IN_CHANNELS);
#elif CONSECUTIVE
  // Elements that follow each other here do so in the input: one division is enough.
  int element = OFFSET + q * REGION_CHANNELS + channel;
  int in_pixel = element / IN_CHANNELS, in_channel = element % IN_CHANNELS;
  for (int lane = 0; lane < 4; ++lane) {
    if (channel + lane < REGION_CHANNELS && element + lane < IN_ELEMENTS)
      v[lane] = fetch(in_pixel, in_channel)[in_channel % 4];
    bool last = in_channel == IN_CHANNELS - 1;
    in_pixel = last ? in_pixel + 1 : in_pixel;
    in_channel = last ? 0 : in_channel + 1;
  }
#else
  for (int lane = 0; lane < 4; ++lane) {
    if (channel + lane >= 0 && channel + lane < REGION_CHANNELS) {
      int element = source(q * REGION_CHANNELS + channel + lane);
      if (element >= 0) {
        int in_channel = element % IN_CHANNELS;
        v[lane] = fetch(element / IN_CHANNELS, in_channel)[in_channel % 4];
      }
    }
  }
#endif
#if PARTIAL && !WHOLE_TEXELS
  if (channel < 0) v = choose(v, unpacked(out_texels[slice * OUT_PIXELS + pixel]), lanes_below(-channel));
#endif
  store(slice, pixel, v);
}
