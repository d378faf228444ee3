// GATHER and GATHER_ND: elements of the input, found by indices.
//
// The elements of the output, counted with the channels fastest, have coordinates in SIZES. Each is
// the input's element (same count) sum of coordinate * STRIDES + sum of index * AXIS_STRIDES, with
// the DEPTH indices that follow each other from element sum of coordinate * WALK on; 0 where one is
// outside AXIS_SIZES. WHOLE_TEXELS: the last coordinate counts the lanes of both tensors' texels.
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(INDICES)

int index_at(int element) {
  int channel = element % INDEX_CHANNELS;
  return LOAD(INDICES, channel / 4 * INDEX_PIXELS + element / INDEX_CHANNELS)[channel % 4];
}

// The texel of the input that holds an element of the output, and its lane there.
VEC0 gathered(int element, out int lane) {
  const int sizes[DIMS] = SIZES, strides[DIMS] = STRIDES, walk[DIMS] = WALK;
  const int axis_sizes[DEPTH] = AXIS_SIZES, axis_strides[DEPTH] = AXIS_STRIDES;
  int from = 0, first_index = 0;
  for (int d = DIMS - 1; d >= 0; --d) {
    int coordinate = d == 0 ? element : element % sizes[d];
    element /= sizes[d];
    from += coordinate * strides[d];
    first_index += coordinate * walk[d];
  }
  bool inside = true;
#pragma unroll(gpu)
  for (int d = 0; d < DEPTH; ++d) {
    int index = index_at(first_index + d);
    inside = inside && index >= 0 && index < axis_sizes[d];
    from += index * axis_strides[d];
  }
  int channel = inside ? from % IN_CHANNELS : 0;
  lane = channel % 4;
  return inside ? LOAD(X, channel / 4 * IN_PIXELS + from / IN_CHANNELS) : VEC0(0);
}

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int element = pixel * OUT_CHANNELS + 4 * slice, lane;
#if WHOLE_TEXELS
  OUT_VEC v = gathered(element, lane);
#else
  OUT_VEC v = OUT_VEC(0);
  for (int i = 0; i < 4 && 4 * slice + i < OUT_CHANNELS; ++i) {
    VEC0 texel = gathered(element + i, lane);
    v[i] = texel[lane];
  }
#endif
  store(slice, pixel, v);
}
