// Of the inputs in a window, where padding does not count: POOLING is AVERAGE, MAXIMUM or
// ARGUMENT, the place of the first maximum in the window; there, edges repeat into the padding.
#include "lib/tensor.glsl"

#define AVERAGE 0
#define MAXIMUM 1
#define ARGUMENT 2

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
#if POOLING == AVERAGE
  vec4 result = vec4(0.0);
#else
  vec4 result = vec4(-3.402823466e38);
#endif
#if POOLING == ARGUMENT
  vec4 place = vec4(0.0);
#endif
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      vec4 v = LOAD(X, (image + y) * IN_W + x);
#if POOLING == AVERAGE
      result += v;
#else
#if POOLING == ARGUMENT
      int row = y == y0 ? 0 : y - top, column = x == x0 ? 0 : x - left;
      place = mix(place, vec4(row * FILTER_W + column), greaterThan(v, result));
#endif
      result = max(result, v);
#endif
    }
  }
#if POOLING == AVERAGE
  result /= float((x1 - x0) * (y1 - y0));
#endif
#if POOLING == ARGUMENT
  result = place;
#endif
  store(slice, pixel, result);
}
