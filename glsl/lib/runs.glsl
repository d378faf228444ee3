// Runs: outputs of a window that slides over rows, for invocations that compute several at once.
//
// A run is PIXELS outputs of a row, under which COLUMNS columns of the input lie. At stride 1 they
// lie DILATION_W apart, so that neighbors share inputs whatever the dilation is.
#ifndef LIB_RUNS
#define LIB_RUNS
#ifndef ASSEMBLED
#define PIXELS 2  // outputs of a run
#define BY_TAPS 0  // 1: read for one tap at a time; 0: all that a run sees of an input row
#define COLUMNS 4  // the input's columns under a run; 1 if BY_TAPS
#define RUNS 3  // runs in a row of the output
#define BATCH 1  // images
#define IN_H 10  // rows of the input
#define IN_W 6  // columns of the input
#define OUT_H 10  // rows of the output
#define OUT_W 6  // columns of the output
#define KERNEL_H 3  // rows of the window
#define KERNEL_W 3  // columns of the window
#define STRIDE_H 1  // input rows from one output to the next
#define STRIDE_W 1  // input columns from one output to the next
#define DILATION_H 1  // input rows from one tap to the next
#define DILATION_W 1  // input columns from one tap to the next
#define PAD_H 1  // padding above the input
#define PAD_W 1  // padding to its left
#endif
#include "lib/tensor.glsl"

#define RUN_STEP (STRIDE_W == 1 ? DILATION_W : 1)

struct Run {
  int row;  // the output's row, counted over all images
  int start;  // the first output in that row
  int batch;  // the image
  int y;  // the input's first row under the window
  int first;  // that row's first pixel
  int column[COLUMNS];  // the columns under the run; OUTSIDE if the input has no such column
};

Run find_run(int number) {
  Run run;
  run.row = QUOTIENT(number, RUNS);
  int in_row = number - run.row * RUNS;
  run.start = in_row / RUN_STEP * (PIXELS * RUN_STEP) + in_row % RUN_STEP;
  run.batch = QUOTIENT(run.row, OUT_H);
  run.y = run.batch < BATCH ? (run.row - run.batch * OUT_H) * STRIDE_H - PAD_H : OUTSIDE;
  run.first = (run.batch * IN_H + run.y) * IN_W;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
    int x = run.start * STRIDE_W - PAD_W + c * DILATION_W;
    run.column[c] = uint(x) < uint(IN_W) ? x : OUTSIDE;
  }
  return run;
}

// The first pixel of the input's row under tap row `ky`, negative if there is no such row.
int run_line(Run run, int ky) {
  int y = run.y + ky * DILATION_H;
  return uint(y) < uint(IN_H) ? run.first + ky * (DILATION_H * IN_W) : OUTSIDE;
}

// The input's column under tap `kx` of the output that is number `p` of the run; OUTSIDE if there
// is none.
int run_column(Run run, int p, int kx) {
  int x = (run.start + p * RUN_STEP) * STRIDE_W - PAD_W + kx * DILATION_W;
  return uint(x) < uint(IN_W) ? x : OUTSIDE;
}

// The pixel in a `column` of such a row, negative if there is none.
int run_input(int line, int column) { return max(line + column, OUTSIDE); }

// The output's pixel that is number `p` of the run, negative if there is none.
int run_pixel(Run run, int p) {
  int x = run.start + p * RUN_STEP;
  return x < OUT_W && run.batch < BATCH ? run.row * OUT_W + x : -1;
}
#endif
