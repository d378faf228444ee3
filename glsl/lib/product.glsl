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

// The first texel of the weights for input slice `k` of TAPS * IN_SLICES; those for the next slice
// lie 4 * BLOCK further on.
int first_weight(int row, int k) {
  return W_SLICES + ((row / BLOCK * (TAPS * IN_SLICES) + k) * BLOCK + row % BLOCK) * 4;
}

// Adds the product of an input slice `v`, of which IN_LANES matter, and the weights from texel `w` on.
void add_product(inout vec4 sum[PIXELS][SLICES], vec4 v[PIXELS], int w) {
  for (int s = 0; s < SLICES; ++s) {
    vec4 column[IN_LANES];
    for (int i = 0; i < IN_LANES; ++i) column[i] = LOAD(W, w + 4 * s + i);
    for (int p = 0; p < PIXELS; ++p) {
      vec4 product = column[0] * v[p][0];
      for (int i = 1; i < IN_LANES; ++i) product += column[i] * v[p][i];
      sum[p][s] += product;
    }
  }
}
