// RESIZE_NEAREST_NEIGHBOR: SCALE is the input step of one output step, FIXED_SCALE the same in
// 1/65536, which LiteRT counts in for tensors of bytes (FIXED_POINT).
#include "lib/tensor.glsl"

INPUT0(X)

int nearest(int position, float scale, int fixed_scale, int size) {
#if FIXED_POINT
  return min(position * fixed_scale >> 16, size - 1);
#else
  float at = (float(position) + (HALF_PIXEL_CENTERS == 1 ? 0.5 : 0.0)) * scale;
  int below = int(floor(at));
#if ROUNDED
  if (at - floor(at) >= 0.5) ++below;
#endif
  return min(below, size - 1);
#endif
}

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int x = nearest(pixel % OUT_W, SCALE_W, FIXED_SCALE_W, IN_W);
  int y = nearest(pixel / OUT_W % OUT_H, SCALE_H, FIXED_SCALE_H, IN_H);
  int image = slice * BATCH + pixel / (OUT_W * OUT_H);
  store(slice, pixel, LOAD(X, (image * IN_H + y) * IN_W + x));
}
