// Weights and biases: input 1, or a texture with rows of 1024 texels. LOAD_WEIGHT reads texel `i`
// behind a place, in the same row; LOAD_COLUMN reads column `i` of a matrix. If WEIGHT_PAIRS, a
// texel has two columns as float16.
#ifndef LIB_WEIGHTS
#define LIB_WEIGHTS
#ifndef ASSEMBLED
#define WEIGHT_TEXTURE 0  // 1: read the weights through a texture
#define WEIGHT_PAIRS 0  // 1: read the columns of the weights two by two
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

#if WEIGHT_PAIRS
#define LOAD_COLUMN(name, place, i) column_of(LOAD(name, (place) + (i) / 2), i)
vec4 column_of(ivec4 pair, int i) { return unpacked(uvec2(i % 2 == 0 ? pair.xy : pair.zw)); }
vec4 bias_of(ivec4 texel) { return intBitsToFloat(texel); }
#else
#define LOAD_COLUMN LOAD_WEIGHT
vec4 bias_of(vec4 texel) { return texel; }
#endif
#endif
