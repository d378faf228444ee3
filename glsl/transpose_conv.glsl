// TRANSPOSE_CONV: Y[STRIDE * i - PAD + tap][o] = bias[o] + sum over i, tap and c of W[o][tap][c] * X[i][c].
//
// Outputs that lie STRIDE apart form a phase: they see the same taps. A work group computes outputs
// of one phase, of which there are GROUPS work groups; an invocation PIXELS outputs of SLICES slices.
// W: as in conv_2d.glsl.
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(W)

const int PHASE_W = (OUT_W + STRIDE_W - 1) / STRIDE_W;  // columns of a phase
const int PHASE_H = (OUT_H + STRIDE_H - 1) / STRIDE_H;

void main() {
  int phase = int(gl_WorkGroupID.PIXEL_AXIS) / GROUPS;
  int first = int(gl_WorkGroupID.PIXEL_AXIS) % GROUPS * (PIXEL_LANES * PIXELS) +
              int(gl_LocalInvocationID.PIXEL_AXIS);
  int slice = SLICE_INVOCATION * SLICES;
  int row = min(slice, W_SLICES - SLICES);
  vec4 sum[PIXELS][SLICES];
  for (int s = 0; s < SLICES; ++s) {
    vec4 bias = LOAD(W, row + s);
    for (int p = 0; p < PIXELS; ++p) sum[p][s] = bias;
  }
  int column_phase = phase % STRIDE_W + PAD_W, row_phase = phase / STRIDE_W + PAD_H;

  // The input pixel under an output's first tap; its other taps see the pixels before that one.
  int left[PIXELS], top[PIXELS], image[PIXELS], target[PIXELS];
  for (int p = 0; p < PIXELS; ++p) {
    int q = first + p * PIXEL_LANES;
    int batch = q / (PHASE_W * PHASE_H);
    int column = q % PHASE_W, line = q / PHASE_W % PHASE_H;
    int x = column * STRIDE_W + phase % STRIDE_W, y = line * STRIDE_H + phase / STRIDE_W;
    bool inside = batch < BATCH && x < OUT_W && y < OUT_H;
    left[p] = column + column_phase / STRIDE_W;
    top[p] = line + row_phase / STRIDE_H;
    image[p] = batch * (IN_H * IN_W);
    target[p] = inside ? (batch * OUT_H + y) * OUT_W + x : -1;
  }

  for (int ky = row_phase % STRIDE_H; ky < KERNEL_H; ky += STRIDE_H) {
    for (int kx = column_phase % STRIDE_W; kx < KERNEL_W; kx += STRIDE_W) {
      int index[PIXELS];  // of the texel of X under the tap
      for (int p = 0; p < PIXELS; ++p) {
        int x = left[p] - kx / STRIDE_W, y = top[p] - ky / STRIDE_H;
        bool inside = target[p] >= 0 && uint(x) < uint(IN_W) && uint(y) < uint(IN_H);
        index[p] = inside ? image[p] + y * IN_W + x : OUTSIDE;
      }
      int tap = row / BLOCK * (KERNEL_H * KERNEL_W) + ky * KERNEL_W + kx;
      int w = W_SLICES + (tap * (IN_SLICES * BLOCK) + row % BLOCK) * 4;
      for (int k = 0; k < IN_SLICES; ++k) {
        vec4 v[PIXELS];
        for (int p = 0; p < PIXELS; ++p) {
          v[p] = LOAD_OR_ZERO(X, index[p]);
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
      if (target[p] >= 0 && slice + s < OUT_SLICES) store(slice + s, target[p], sum[p][s]);
}
