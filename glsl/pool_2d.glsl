// AVERAGE_POOL_2D (padding does not count) and MAX_POOL_2D.
#include "lib/tensor.glsl"

INPUT0(X)

void main() {
  int pixel = PIXEL_INVOCATION;
  int slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  int left = pixel % OUT_W * STRIDE_W - PAD_W;
  int top = pixel / OUT_W % OUT_H * STRIDE_H - PAD_H;
  int image = (slice * BATCH + pixel / (OUT_W * OUT_H)) * IN_H;
  int x0 = max(left, 0), x1 = min(left + FILTER_W, IN_W);
  int y0 = max(top, 0), y1 = min(top + FILTER_H, IN_H);
#if AVERAGE
  vec4 result = vec4(0.0);
#else
  vec4 result = vec4(-3.402823466e38);
#endif
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      vec4 v = LOAD(X, (image + y) * IN_W + x);
#if AVERAGE
      result += v;
#else
      result = max(result, v);
#endif
    }
  }
#if AVERAGE
  result /= float((x1 - x0) * (y1 - y0));
#endif
  store(slice, pixel, result);
}
