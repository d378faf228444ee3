// The normalized sums of an LSTM's gates.
#ifndef LIB_LSTM_NORMALIZATION
#define LIB_LSTM_NORMALIZATION
#ifndef ASSEMBLED
#define UNITS 11
#define NORM_PARTS vec4(128.0)  // see `rounded`
#define NORM_SCALES vec4(0.0001)  // of the coefficients; 1 / 1024 of that for the biases
#define NORM_GUARDS vec4(1.0)  // the variances to use instead of 0
#endif
#include "lib/lstm.glsl"

vec4 sum_at(int gate, int slice, int batch) {
  vec4 sum = after(SUMS + gate * UNIT_SLICES + slice, batch);
  return gate == 3 ? output_sum(sum, after(CELL + slice, batch), slice) : sum;
}

// A gate's sum with the mean 0 and the variance 1 over all units, then scaled.
#if INTEGER
vec4 normalized(int gate, int slice, int batch) {
  float sum = 0.0, squares = 0.0;
  for (int k = 0; k < UNIT_SLICES; ++k) {
    vec4 v = sum_at(gate, k, batch);
    sum += dot(v, vec4(1.0));
    squares += dot(v, v);
  }
  float mean = trunc(sum * 1024.0 / float(UNITS));
  float variance = squares * (float(0x100000 / UNITS) / 1048576.0) - mean * mean / 1048576.0;
  variance = variance < 1.0 ? NORM_GUARDS[gate] : trunc(variance);
  vec4 v = nearest((1024.0 * sum_at(gate, slice, batch) - mean) / sqrt(variance));
  float unit = NORM_SCALES[gate];
  ivec4 scaled = ivec4(v) * ivec4(nearest(PARAMETER(3 + gate, slice) / unit));
  scaled += ivec4(nearest(PARAMETER(7 + gate, slice) / unit * 1024.0));
  v = rounded(vec4(divided(scaled, 10)) * (4096.0 * unit), NORM_PARTS[gate]);
  return clamp(v, -32768.0, 32767.0);
}
#else
vec4 normalized(int gate, int slice, int batch) {
  const vec4 ones = vec4(1.0);
  float mean = 0.0, variance = 0.0;
  for (int k = 0; k < UNIT_SLICES; ++k) mean += dot(sum_at(gate, k, batch), ones);
  mean /= float(UNITS);
  for (int k = 0; k < UNIT_SLICES; ++k) {
    vec4 v = sum_at(gate, k, batch) - mean;
    v = choose(vec4(0.0), v, lanes_below(UNITS - 4 * k));
    variance += dot(v, v);
  }
  vec4 v = (sum_at(gate, slice, batch) - mean) / sqrt(variance / float(UNITS) + 1e-8);
  return PARAMETER(3 + gate, slice) * v + PARAMETER(7 + gate, slice);
}
#endif
#endif
