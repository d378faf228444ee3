// Recurrent layers. The output is the layer's history: row 0 is the state before the first step, and
// row n + 1 that after step n, in BATCH pixels each. A step reads one row and writes the next.
#ifndef LIB_RECURRENCE
#define LIB_RECURRENCE
#ifndef ASSEMBLED
#define PARTIAL 1
#define BATCH 3
#define ROW 2  // the number of the step, which is that of the row it reads
#define INPUT_PIXEL 2  // the pixel of the step's inputs to the gates, for the first of the batch
#define INPUT_STRIDE 5  // and what is added for each other
#define INPUT_PIXELS 15  // pixels of the inputs to the gates
#endif
#include "lib/shared.glsl"

// A slice of the state before the step, and after it.
vec4 before(int slice, int batch) { return BEFORE(slice * OUT_PIXELS + ROW * BATCH + batch); }
vec4 after(int slice, int batch) { return BEFORE(slice * OUT_PIXELS + (ROW + 1) * BATCH + batch); }
void set_after(int slice, int batch, vec4 v) { store(slice, (ROW + 1) * BATCH + batch, v); }

// A slice of what the inputs of the step give.
#define LOAD_STEP(name, slice, batch) \
  LOAD(name, (slice)*INPUT_PIXELS + INPUT_PIXEL + (batch)*INPUT_STRIDE)

// The product of a column-major matrix, whose columns lie `apart`, and a vector.
#define COLUMNS(name, first, apart, v) \
  (LOAD(name, first) * (v).x + LOAD(name, (first) + (apart)) * (v).y + \
   LOAD(name, (first) + 2 * (apart)) * (v).z + LOAD(name, (first) + 3 * (apart)) * (v).w)
#endif
