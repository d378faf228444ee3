// The product with the input's texels under a tap, shared by the convolutions.
#define TAPS (KERNEL_H * KERNEL_W)
#include "lib/product.glsl"

// Adds what the input's texels at `index` (negative: zero) contribute under one tap.
void add_tap(inout vec4 sum[PIXELS][SLICES], int index[PIXELS], int row, int tap) {
  int w = first_weight(row, tap * IN_SLICES);
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
    add_product(sum, v, w);
    w += 4 * BLOCK;
  }
}
