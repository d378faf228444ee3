// The product of a register tile with weights, shared by the convolutions.
//
// W: the biases of W_SLICES slices; then for each BLOCK of slices, at each tap and input slice, the
// 4 columns of every slice of the block. An invocation computes PIXELS pixels of SLICES slices.

INPUT0(X)
INPUT1(W)

// The first of an invocation's rows of weights, for its first slice.
int weight_row(int slice) { return min(slice, W_SLICES - SLICES); }

void start_with_biases(out vec4 sum[PIXELS][SLICES], int row) {
  for (int s = 0; s < SLICES; ++s) {
    vec4 bias = LOAD(W, row + s);
    for (int p = 0; p < PIXELS; ++p) sum[p][s] = bias;
  }
}

// Adds what the input's texels at `index` (negative: zero) contribute under one tap.
void add_tap(inout vec4 sum[PIXELS][SLICES], int index[PIXELS], int row, int tap) {
  int w = W_SLICES + ((row / BLOCK * (KERNEL_H * KERNEL_W) + tap) * (IN_SLICES * BLOCK) + row % BLOCK) * 4;
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
