#version 310 es
#extension GL_GOOGLE_include_directive : require

// A tensor [1, HEIGHT, WIDTH, CHANNELS] -> pixels in the order of a texture's rows, WORDS 32-bit
// words each: RGBA8 or R32F (1), RGBA16F (2).
//
// A pixel is SCALE * x + OFFSET or, with a PALETTE, its color of the class: the highest of several
// scores, whether a single one is above THRESHOLD, or an integer.
#ifndef ASSEMBLED
#define OUT_VEC ivec4
#define OUT_ELEMENT ivec4
#define HEIGHT 10
#define WIDTH 6
#define PIXELS 60  // of the tensor
#define CHANNELS 4  // of the tensor
#define SCALE 1.0
#define OFFSET 0.0
#define RGBA8 1  // 1: the texture's format is RGBA8
#define R32F 0  // 1: it is R32F
#define WORDS 1
#define FLIP_Y 0  // 1: the lowest row first
#define COLOURS 0  // colors of the palette
#define PALETTE int[1](0)  // the colors as RGBA8
#define SCORES 1  // 1: X has scores; 0: the integer of a class
#define THRESHOLD 0.5
#endif
#include "lib/tensor.glsl"
#include "lib/index.glsl"

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
    if (channel % 4 == 0) v = LOAD(X, texel_of(channel, pixel, PIXELS));
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
