// Recurrent layers. The output is the layer's history: row 0 is the state before the first step, and
// row n + 1 that after step n, in BATCH pixels each. A step reads one row and writes the next.
#ifndef LIB_RECURRENCE
#define LIB_RECURRENCE
#ifndef ASSEMBLED
#define PARTIAL 1
#define BATCH 3
#define STEPS 1  // those that the dispatch makes; of several, a work group has the whole state
#define SHARED_TEXELS 0  // twice the state's texels, if the dispatch makes several steps
#define STATE_SLICES 2  // slices of the output state
#define ROW 2  // the number of the first step, which is that of the row it reads
#define INPUT_PIXEL 2  // the pixel of the step's inputs to the gates, for the first of the batch
#define INPUT_STRIDE 5  // and what is added for each other
#define INPUT_STEP 1  // and for each other step
#define INPUT_PIXELS 15  // pixels of the inputs to the gates
#endif
#include "lib/shared.glsl"

int passed = 0;  // steps of the dispatch before this one

// A slice of the state before the step, and after it.
vec4 before(int slice, int batch) {
  return BEFORE(slice * OUT_PIXELS + (ROW + passed) * BATCH + batch);
}
vec4 after(int slice, int batch) {
  return BEFORE(slice * OUT_PIXELS + (ROW + passed + 1) * BATCH + batch);
}
void set_after(int slice, int batch, vec4 v) {
  store(slice, (ROW + passed + 1) * BATCH + batch, v);
}

// The output state before the step, which all invocations read; it is shared before one, and
// another half of the memory is for that after it.
#if SHARED_TEXELS
shared vec4 output_states[SHARED_TEXELS];
vec4 output_state(int slice, int batch) {
  return output_states[((passed & 1) * BATCH + batch) * STATE_SLICES + slice];
}
void share_state(int steps, int slice, int batch, vec4 v) {
  output_states[((steps & 1) * BATCH + batch) * STATE_SLICES + slice] = v;
}
#define FOR_ALL_STEPS(here, slice, batch) \
  if (here) share_state(0, slice, batch, before(slice, batch)); \
  for (passed = 0; passed < STEPS; ++passed)
#if CHAINED
#define BARRIER memoryBarrierShared();  // the invocations are one SIMD vector
#else
#define BARRIER barrier();
#endif
#else
vec4 output_state(int slice, int batch) { return before(slice, batch); }
void share_state(int steps, int slice, int batch, vec4 v) {}
#define FOR_ALL_STEPS(here, slice, batch)
#define BARRIER
#endif

// A slice of what the inputs of the step give.
#define LOAD_STEP(name, slice, batch) \
  LOAD(name, (slice)*INPUT_PIXELS + INPUT_PIXEL + passed * INPUT_STEP + (batch)*INPUT_STRIDE)

// The product of a column-major matrix, whose columns lie `apart`, and a vector.
#define COLUMNS(name, first, apart, v) \
  (LOAD(name, first) * (v).x + LOAD(name, (first) + (apart)) * (v).y + \
   LOAD(name, (first) + 2 * (apart)) * (v).z + LOAD(name, (first) + 3 * (apart)) * (v).w)
#endif
