// Depthwise convolution, shared by the shader of its own and the one that multiplies its result:
// V[c] = bias[c] + sum over taps of D[tap][c] * X[c / MULTIPLIER] at the tap.
//
// A run is PIXELS outputs of a row. At stride 1 they lie DILATION_W apart, so that neighbours share
// inputs whatever the dilation is.
// D: biases of D_SLICES slices, then of each slice KERNEL_H x KERNEL_W taps.

#define STEP (STRIDE_W == 1 ? DILATION_W : 1)

const int COLUMNS = (PIXELS - 1) * STRIDE_W + KERNEL_W;  // of inputs under the outputs

int run_row, run_start;  // the run's row, counted over all images, and its first output in it
int run_batch;
int run_line[KERNEL_H], run_column[COLUMNS];  // under its taps: the first texels of rows, and columns

void find_run(int run) {
  run_row = run / RUNS;
  run_start = run % RUNS / STEP * (PIXELS * STEP) + run % RUNS % STEP;
  run_batch = run_row / OUT_H;
  for (int c = 0; c < COLUMNS; ++c) {
    int x = run_start * STRIDE_W - PAD_W + c * DILATION_W;
    run_column[c] = uint(x) < uint(IN_W) ? x : OUTSIDE;
  }
  for (int ky = 0; ky < KERNEL_H; ++ky) {
    int y = run_row % OUT_H * STRIDE_H - PAD_H + ky * DILATION_H;
    bool inside = uint(y) < uint(IN_H) && run_batch < BATCH;
    run_line[ky] = inside ? (run_batch * IN_H + y) * IN_W : OUTSIDE;
  }
}

// The pixel of output `p` of the run, negative if there is none.
int run_pixel(int p) {
  int x = run_start + p * STEP;
  return x < OUT_W && run_batch < BATCH ? run_row * OUT_W + x : -1;
}

// The input texel that feeds the channels of a slice.
vec4 input_of(int slice, int pixel) {
#if MULTIPLIER == 1
  return LOAD_OR_ZERO(X, slice * IN_PIXELS + pixel);
#else
  vec4 v;
  for (int lane = 0; lane < 4; ++lane) {
    int channel = min((4 * slice + lane) / MULTIPLIER, IN_CHANNELS - 1);
    v[lane] = LOAD_OR_ZERO(X, channel / 4 * IN_PIXELS + pixel)[channel % 4];
  }
  return v;
#endif
}

// The run's results of one slice.
void convolve(out vec4 sum[PIXELS], int slice) {
  vec4 bias = LOAD(D, slice);
  for (int p = 0; p < PIXELS; ++p) sum[p] = bias;
  int tap = D_SLICES + slice * (KERNEL_H * KERNEL_W);
  for (int ky = 0; ky < KERNEL_H; ++ky) {
    vec4 v[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c)
      v[c] = input_of(slice, max(run_line[ky] + run_column[c], OUTSIDE));
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      vec4 weight = LOAD(D, tap++);
      for (int p = 0; p < PIXELS; ++p) sum[p] += v[p * STRIDE_W + kx] * weight;
    }
  }
}
