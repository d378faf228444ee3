// Runs: the outputs of a window that slides over rows, for invocations that compute several at once.
//
// A run is PIXELS outputs of a row, of RUNS in it, under which COLUMNS inputs lie. At stride 1 they
// lie DILATION_W apart, so that neighbours share inputs whatever the dilation is.

#define STEP (STRIDE_W == 1 ? DILATION_W : 1)

int run_row, run_start;  // the run's row, counted over all images, and its first output in it
int run_batch;           // its image
int run_y, run_first;    // the input's first row under the window, and that row's first pixel
int run_column[COLUMNS];

void find_run(int run) {
  run_row = QUOTIENT(run, RUNS);
  int in_row = run - run_row * RUNS;
  run_start = in_row / STEP * (PIXELS * STEP) + in_row % STEP;
  run_batch = QUOTIENT(run_row, OUT_H);
  run_y = run_batch < BATCH ? (run_row - run_batch * OUT_H) * STRIDE_H - PAD_H : OUTSIDE;
  run_first = (run_batch * IN_H + run_y) * IN_W;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
    int x = run_start * STRIDE_W - PAD_W + c * DILATION_W;
    run_column[c] = uint(x) < uint(IN_W) ? x : OUTSIDE;
  }
}

// The input's first pixel in row `ky` under the taps, negative if there is no such row.
int run_line(int ky) {
  int y = run_y + ky * DILATION_H;
  return uint(y) < uint(IN_H) ? run_first + ky * (DILATION_H * IN_W) : OUTSIDE;
}

// The pixel in column `c` of such a row.
int run_input(int line, int c) { return max(line + run_column[c], OUTSIDE); }

// The output's pixel that is number `p` of the run, negative if there is none.
int run_pixel(int p) {
  int x = run_start + p * STEP;
  return x < OUT_W && run_batch < BATCH ? run_row * OUT_W + x : -1;
}
