// Y[o] = bias[o] + sum over taps and i of W[o][tap][i] * X[i] at the tap; CONV_2D, FULLY_CONNECTED.
//
// An invocation computes PIXELS pixels (PIXEL_LANES apart) of SLICES slices in registers.
// W: the biases of W_SLICES slices; then for each BLOCK of slices, at each tap and input slice, the
// 4 columns of every slice of the block.
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(W)

void main() {
  int first = FIRST_PIXEL(PIXELS);
  int slice = SLICE_INVOCATION * SLICES;
  int row = min(slice, W_SLICES - SLICES);
  vec4 sum[PIXELS][SLICES];
  for (int s = 0; s < SLICES; ++s) {
    vec4 bias = LOAD(W, row + s);
    for (int p = 0; p < PIXELS; ++p) sum[p][s] = bias;
  }
  int w = W_SLICES + (row / BLOCK * (KERNEL_H * KERNEL_W * IN_SLICES * BLOCK) + row % BLOCK) * 4;
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
      for (int k = 0; k < IN_SLICES; ++k) {
        vec4 v[PIXELS];
        for (int p = 0; p < PIXELS; ++p) {
#if POINTWISE
          v[p] = LOAD(X, index[p]);
#else
          v[p] = LOAD_OR_ZERO(X, index[p]);
#endif
          index[p] += IN_PIXELS;
        }
        for (int s = 0; s < SLICES; ++s) {
          int c = w + s * 4;
          mat4 m = mat4(LOAD(W, c), LOAD(W, c + 1), LOAD(W, c + 2), LOAD(W, c + 3));
          for (int p = 0; p < PIXELS; ++p) sum[p][s] += m * v[p];
        }
        w += BLOCK * 4;
      }
    }
  }
  for (int s = 0; s < SLICES; ++s)
    for (int p = 0; p < PIXELS; ++p)
      if (first + p * PIXEL_LANES < OUT_PIXELS && slice + s < OUT_SLICES)
        store(slice + s, first + p * PIXEL_LANES, sum[p][s]);
}
