// Weights and biases: input 1, or a texture with rows of 1024 texels. LOAD_WEIGHT reads texel `i`
// behind a place, in the same row; LOAD_COLUMN reads column `i` of a matrix. A texel may have two
// columns as float16, or four as int8 or eight as int4, which are to be multiplied by scales;
// WEIGHT_ZERO is added to int8. Of eight columns, the places of matrices are counted in half texels.
#ifndef LIB_WEIGHTS
#define LIB_WEIGHTS
#ifndef ASSEMBLED
#define WEIGHT_TEXTURE 0  // 1: read the weights through a texture
#define WEIGHT_COLUMNS 1  // columns in a texel: 1, 2, 4 or 8
#define WEIGHT_ZERO 0  // of four columns
#endif
#include "lib/tensor.glsl"

#if WEIGHT_TEXTURE
#define WEIGHT_INPUT(name) layout(binding = 0) uniform PRODUCT_PRECISION sampler2D name;
#define WEIGHT_PLACE ivec2
#define LOAD_WEIGHT(name, place, i) texelFetch(name, (place) + ivec2(i, 0), 0)
ivec2 weight_place(int index) { return ivec2(index & 1023, index >> 10); }
#else
#define WEIGHT_INPUT(name) INPUT1(name)
#define WEIGHT_PLACE int
#define LOAD_WEIGHT(name, place, i) LOAD(name, (place) + (i))
int weight_place(int index) { return index; }
#endif

#if WEIGHT_COLUMNS == 1
#define WEIGHT_TEXEL vec4
#define LOAD_COLUMN LOAD_WEIGHT
vec4 column_of(vec4 column, int i) { return column; }
vec4 bias_of(vec4 texel) { return texel; }
#else
#define WEIGHT_TEXEL ivec4
#if WEIGHT_COLUMNS == 8
#define LOAD_COLUMN(name, place, i) column_of(LOAD(name, (place) >> 1), 4 * ((place)&1) + (i))
#else
#define LOAD_COLUMN(name, place, i) column_of(LOAD(name, (place) + (i) / WEIGHT_COLUMNS), i)
#endif
vec4 bias_of(ivec4 texel) { return intBitsToFloat(texel); }
#if WEIGHT_COLUMNS == 2
vec4 column_of(ivec4 pair, int i) { return unpacked(uvec2(i % 2 == 0 ? pair.xy : pair.zw)); }
#elif WEIGHT_COLUMNS == 8
vec4 column_of(ivec4 eight, int i) {
  ivec2 half_of = i < 4 ? eight.xy : eight.zw;
  return vec4(ivec4(half_of[i / 2 % 2]) << (ivec4(28, 24, 20, 16) - i % 2 * 16) >> 28);
}
#else
vec4 column_of(ivec4 four, int i) {
  return vec4((ivec4(four[i]) << ivec4(24, 16, 8, 0) >> 24) + WEIGHT_ZERO);
}
#endif
#endif
#endif
