// A tensor -> bytes in row-major order, sixteen to a texel: the inverse of unpack_bytes.glsl.
#include "lib/tensor.glsl"

INPUT0(X)

int byte_of(int element) {
  int channel = element % CHANNELS, pixel = element / CHANNELS;
  if (pixel >= PIXELS) return 0;
  VEC0 v = LOAD(X, channel / 4 * PIXELS + pixel);
#ifdef SCALE
  int byte = int(floor(v[channel % 4] / SCALE + 0.5)) + ZERO_POINT;
#else
  int byte = v[channel % 4];
#endif
#if SIGNED
  return clamp(byte, -128, 127) & 0xff;
#else
  return clamp(byte, 0, 255);
#endif
}

void main() {
  int texel = PIXEL_INVOCATION;
  if (texel >= OUT_PIXELS) return;
  ivec4 words = ivec4(0);
  for (int i = 0; i < 16; ++i) words[i / 4] |= byte_of(16 * texel + i) << (i % 4 * 8);
  store(0, texel, words);
}
