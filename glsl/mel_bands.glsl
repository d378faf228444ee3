#version 310 es
#extension GL_GOOGLE_include_directive : require

// The logarithms of the magnitudes in overlapping triangular bands, whose centers are equally far
// apart in mel, of a spectrogram X of squared magnitudes. RATE: samples per second.
#ifndef ASSEMBLED
#define VEC1 ivec4
#define ELEMENT1 ivec4
#define BINS 257  // from 0 to half of the sample rate
#define BANDS 40
#define LOW 20.0  // hertz, where the first band begins
#define HIGH 4000.0  // and the last one ends
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(RATE)

float mel_of(float hertz) { return 1127.0 * log(1.0 + hertz / 700.0); }
float hertz_of(float mel) { return 700.0 * (exp(mel / 1127.0) - 1.0); }

void main() {
  int pixel = PIXEL_INVOCATION, slice = SLICE_INVOCATION;
  if (pixel >= OUT_PIXELS || slice >= OUT_SLICES) return;
  float hertz = 0.5 * float(LOAD(RATE, 0).x) / float(BINS - 1);  // from bin to bin
  int first = int(1.5 + LOW / hertz), last = int(HIGH / hertz);
  if (last >= BINS) {  // there are no such frequencies
    store(slice, pixel, vec4(0.0));
    return;
  }
  float low = mel_of(LOW), apart = (mel_of(HIGH) - low) / float(BANDS + 1);
  vec4 centre = low + apart * (float(4 * slice) + vec4(1.0, 2.0, 3.0, 4.0));
  first = max(first, int(hertz_of(centre.x - apart) / hertz) - 1);
  last = min(last, int(hertz_of(centre.w + apart) / hertz) + 1);
  vec4 sum = vec4(0.0);
  for (int bin = first; bin <= last; ++bin) {
    vec4 share = 1.0 - abs(mel_of(float(bin) * hertz) - centre) / apart;
    share = choose(share, vec4(0.0), lessThan(share, vec4(1e-5)));  // at an edge, rounding errors
    sum += sqrt(LOAD(X, bin / 4 * OUT_PIXELS + pixel)[bin % 4]) * share;
  }
  store(slice, pixel, keep_nan(log(max(sum, 1e-12)), sum));
}
