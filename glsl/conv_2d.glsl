// Y[o] = bias[o] + sum over taps and i of W[o][tap][i] * X[i] at the tap; CONV_2D, FULLY_CONNECTED.
//
// An invocation computes PIXELS pixels (PIXEL_LANES apart) of SLICES slices in registers.
// W: see lib/product.glsl.
#include "lib/tensor.glsl"
#include "lib/taps.glsl"

void main() {
  int first = FIRST_PIXEL(PIXELS);
  int slice = SLICE_INVOCATION * SLICES;
  int row = weight_row(slice);
  vec4 sum[PIXELS][SLICES];
  start_with_biases(sum, row);
#if !POINTWISE
  int left[PIXELS], top[PIXELS], image[PIXELS];
  for (int p = 0; p < PIXELS; ++p) {
    int pixel = first + p * PIXEL_LANES;
    left[p] = pixel % OUT_W * STRIDE_W - PAD_W;
    top[p] = pixel < OUT_PIXELS ? pixel / OUT_W % OUT_H * STRIDE_H - PAD_H : OUTSIDE;
    image[p] = pixel / (OUT_W * OUT_H) * (IN_H * IN_W);
  }
#endif

  for (int ky = 0; ky < KERNEL_H; ++ky) {
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      int index[PIXELS];  // of the texel of X under the tap
      for (int p = 0; p < PIXELS; ++p) {
#if POINTWISE
        index[p] = min(first + p * PIXEL_LANES, OUT_PIXELS - 1);
#else
        int x = left[p] + kx * DILATION_W, y = top[p] + ky * DILATION_H;
        index[p] = uint(x) < uint(IN_W) && uint(y) < uint(IN_H) ? image[p] + y * IN_W + x : OUTSIDE;
#endif
      }
      add_tap(sum, index, row, ky * KERNEL_W + kx);
    }
  }
  for (int s = 0; s < SLICES; ++s)
    for (int p = 0; p < PIXELS; ++p)
      if (first + p * PIXEL_LANES < OUT_PIXELS && slice + s < OUT_SLICES)
        store(slice + s, first + p * PIXEL_LANES, sum[p][s]);
}
