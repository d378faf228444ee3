// A tensor [1, HEIGHT, WIDTH, CHANNELS] -> pixels in the order of a texture's rows, WORDS 32-bit
// words each: RGBA8 or R32F (1), RGBA16F (2).
//
// A pixel is SCALE * x + OFFSET or, of COLOURS colours in PALETTE packed as RGBA8, that of the
// class: the highest of several scores, whether a single one is above THRESHOLD, or an integer.
#include "lib/tensor.glsl"

INPUT0(X)

#if COLOURS
const int palette[COLOURS] = PALETTE;
#endif

int class_of(int pixel) {
#if CHANNELS == 1 && SCORES
  return LOAD(X, pixel).x > THRESHOLD ? 1 : 0;
#elif CHANNELS == 1
  return int(LOAD(X, pixel).x);
#else
  int best = 0;
  VEC0 v = LOAD(X, pixel);
  VEC0 highest = v.xxxx;
#pragma unroll(gpu)
  for (int channel = 1; channel < CHANNELS; ++channel) {
    if (channel % 4 == 0) v = LOAD(X, channel / 4 * PIXELS + pixel);
    if (v[channel % 4] > highest.x) {
      highest.x = v[channel % 4];
      best = channel;
    }
  }
  return best;
#endif
}

vec4 colour_of(int pixel) {
#if COLOURS
  int word = palette[clamp(class_of(pixel), 0, COLOURS - 1)];
  return unpackUnorm4x8(uint(word));
#else
  vec4 v = vec4(LOAD(X, pixel)) * SCALE + OFFSET;
#if CHANNELS == 1
  return vec4(v.xxx, 1.0);
#elif CHANNELS == 2
  return vec4(v.xy, 0.0, 1.0);
#elif CHANNELS == 3
  return vec4(v.xyz, 1.0);
#else
  return v;
#endif
#endif
}

void main() {
  int texel = PIXEL_INVOCATION;
  if (texel >= OUT_PIXELS) return;
  ivec4 words = ivec4(0);
  for (int i = 0; i < 4 / WORDS; ++i) {
    int at = texel * (4 / WORDS) + i;
    if (at >= PIXELS) break;
    int row = at / WIDTH;
#if FLIP_Y
    row = HEIGHT - 1 - row;
#endif
    vec4 v = colour_of(row * WIDTH + at % WIDTH);
#if RGBA8
    words[i] = int(packUnorm4x8(v));
#elif R32F
    words[i] = floatBitsToInt(v.x);
#else
    words[2 * i] = int(packHalf2x16(v.xy));
    words[2 * i + 1] = int(packHalf2x16(v.zw));
#endif
  }
  store(0, texel, words);
}
