// Element-wise functions; each carries the name of the TFLite op it computes.
//
// max, min, clamp and exp may lose a NaN that LiteRT keeps, and compilers make max and min of
// comparisons, so NaN is tested separately.

#ifndef LIB_ELEMENTWISE
#define LIB_ELEMENTWISE

// mix(no, yes, which), which takes integers only from GLSL 4.50 on.
vec4 choose(vec4 no, vec4 yes, bvec4 which) { return mix(no, yes, which); }
ivec4 choose(ivec4 no, ivec4 yes, bvec4 which) { return no ^ (no ^ yes) & -ivec4(which); }

// `result`, but NaN where x is NaN.
vec4 keep_nan(vec4 result, vec4 x) { return mix(result, x, isnan(x)); }
// `result`, but b where a or b is NaN: what a comparison of LiteRT's falls back to.
vec4 ordered(vec4 result, vec4 a, vec4 b) { return mix(keep_nan(result, b), b, isnan(a)); }

// x, but `low` where x <= below, and `high` where x >= above: the floats next to these, as a compiler
// that sees x and the bound compared makes max and min of it. NaN and -0 stay what they are.
#define BOUNDED(x, low, below) mix(x, vec4(low), lessThanEqual(x, vec4(below)))
#define BELOW(x, high, above) mix(x, vec4(high), greaterThanEqual(x, vec4(above)))
#define BELOW_0 (-1.17549435e-38)
vec4 RELU(vec4 x) { return BOUNDED(x, 0.0, BELOW_0); }
vec4 RELU6(vec4 x) { return BELOW(BOUNDED(x, 0.0, BELOW_0), 6.0, 6.0000005); }
vec4 RELU_N1_TO_1(vec4 x) { return BELOW(BOUNDED(x, -1.0, -1.0000001), 1.0, 1.0000001); }
vec4 RELU_0_TO_1(vec4 x) { return BELOW(BOUNDED(x, 0.0, BELOW_0), 1.0, 1.0000001); }
ivec4 RELU(ivec4 x) { return max(x, 0); }
ivec4 RELU6(ivec4 x) { return clamp(x, 0, 6); }
ivec4 RELU_N1_TO_1(ivec4 x) { return clamp(x, -1, 1); }
vec4 LOGISTIC(vec4 x) { return keep_nan(1.0 / (1.0 + exp(-x)), x); }
// Near 0, where a difference of numbers about 1 cancels, TANH and ELU are polynomials, fitted for the
// least relative error; these keep a NaN without a test.
vec4 TANH(vec4 x) {
  vec4 q = x * x, near = x * (1.0 - q * (0.333322554 - q * 0.131199567));
  return mix(near, 1.0 - 2.0 / (exp(2.0 * x) + 1.0), greaterThan(abs(x), vec4(0.2)));
}
vec4 EXP(vec4 x) { return keep_nan(exp(x), x); }
vec4 ELU(vec4 x) {
  vec4 near = x * (1.0 + x * (0.499995867 + x * (0.166384593 + x * 0.0386617997)));
  vec4 below = mix(near, exp(x) - 1.0, lessThan(x, vec4(-0.25)));
  return mix(below, x, greaterThanEqual(x, vec4(0.0)));
}
// The sign's bit, since compilers take x - x for 0 where x is infinite or NaN, too.
vec4 NEG(vec4 x) { return intBitsToFloat(floatBitsToInt(x) + int(0x80000000u)); }
vec4 LEAKY_RELU(vec4 x, float alpha) {
  // Compilers take a product with a literal 0 for 0.
  vec4 below = alpha == 0.0 ? x + NEG(x) : alpha * x;
  return keep_nan(mix(below, x, greaterThan(x, vec4(0.0))), x);
}
vec4 HARD_SWISH(vec4 x) { return keep_nan(x * (clamp(x + 3.0, 0.0, 6.0) / 6.0), x); }

vec4 ABS(vec4 x) { return abs(x); }
vec4 SIGN(vec4 x) { return keep_nan(sign(x), x); }
ivec4 ABS(ivec4 x) { return abs(x); }
ivec4 NEG(ivec4 x) { return -x; }
ivec4 SIGN(ivec4 x) { return sign(x); }
vec4 FLOOR(vec4 x) { return floor(x); }
vec4 CEIL(vec4 x) { return ceil(x); }
vec4 ROUND(vec4 x) { return roundEven(x); }
vec4 SQUARE(vec4 x) { return x * x; }
vec4 SQRT(vec4 x) { return sqrt(x); }
vec4 RSQRT(vec4 x) { return inversesqrt(x); }

// x without whole turns, in [-pi, pi], for 8192 <= |x| < infinity; to 2e-7 (Payne and Hanek).
//
// In turns |x| is m 2^e / (2 pi 2^10), of which only the fraction matters: that of m times the words
// of 1 / (2 pi 2^10) from bit e on. The carry of the second word needs no exact integer.
vec4 less_turns(vec4 x) {
  ivec4 bits = floatBitsToInt(abs(x)), m = bits & 0x7fffff | 0x800000, e = (bits >> 23) - 140;
  ivec4 a = ivec4(0x000a2f98), b = ivec4(0x36e4e441), c = ivec4(0x529fc275);
  ivec4 d = ivec4(0x7d1f534d), far = -(e >> 6 & 1), odd = -(e >> 5 & 1);
  a ^= (a ^ c) & far, b ^= (b ^ d) & far;
  c ^= (c ^ int(0xdc0db629u)) & far, d ^= (d ^ 0x5993c439) & far;
  a ^= (a ^ b) & odd, b ^= (b ^ c) & odd, c ^= (c ^ d) & odd;
  uvec4 shift = uvec4(e & 31), high = uvec4(b), low = uvec4(c);
  ivec4 first = a << shift | ivec4(high >> 1 >> (31u - shift));
  ivec4 second = ivec4((high << shift | low >> 1 >> (31u - shift)) >> 8);
  ivec4 turns = m * first + ivec4(vec4(m) * vec4(second) * 5.96046448e-08);
  ivec4 below = floatBitsToInt(x) >> 31;
  return vec4((turns ^ below) - below) * 1.46291808e-09;
}

// sin(x + phase pi) for a phase of 0 or 1/2, by its series at the distance r of x from the nearest
// zero; pi is taken off in parts whose multiples are exact (Cody and Waite). To 1e-6.
vec4 sine(vec4 x, float phase) {
  bvec4 large = lessThan(uvec4(floatBitsToInt(abs(x)) - 0x46000000), uvec4(0x39800000));
  x = mix(x, less_turns(x), large);
  vec4 turns = roundEven(x * 0.318309886 + phase), k = turns - phase;
  vec4 r = ((x - k * 3.140625) - k * 0.0009676516056060791) - k * 1.984187037e-09, q = r * r;
  vec4 high = 1.0 - q * (1.0 / 42.0) * (1.0 - q * (1.0 / 72.0) * (1.0 - q * (1.0 / 110.0)));
  vec4 series = 1.0 - q * (1.0 / 6.0) * (1.0 - q * (1.0 / 20.0) * high);
  return r * series * (1.0 - 4.0 * fract(0.5 * turns));
}
vec4 SIN(vec4 x) { return sine(x, 0.0); }
vec4 COS(vec4 x) { return sine(x, 0.5); }

#define INFINITY intBitsToFloat(0x7f800000)
#define NOT_A_NUMBER intBitsToFloat(0x7fc00000)

// log2 with a small relative error near 1 too, and as C has it at 0, below, and at infinity:
// x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)) by its series.
vec4 log2_of(vec4 x) {
  vec4 small = vec4(lessThan(x, vec4(1.17549435e-38)));
  ivec4 bits = floatBitsToInt(x * (1.0 + small * 16777215.0));
  ivec4 e = (bits - 0x3f3504f3) >> 23;
  vec4 m = intBitsToFloat(bits - (e << 23));
  vec4 s = (m - 1.0) / (m + 1.0), q = s * s;
  vec4 series = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0))));
  vec4 result = vec4(e) - 24.0 * small + 2.88539008 * s * series;
  result = mix(result, x, greaterThanEqual(x, vec4(INFINITY)));
  result = mix(result, vec4(-INFINITY), equal(x, vec4(0.0)));
  return keep_nan(mix(result, vec4(NOT_A_NUMBER), lessThan(x, vec4(0.0))), x);
}
vec4 LOG(vec4 x) { return 0.693147181 * log2_of(x); }

// The complementary error function for x >= 0 (Abramowitz and Stegun, 7.1.26), to 1.5e-7.
vec4 erfc_of(vec4 x) {
  vec4 t = 1.0 / (1.0 + 0.3275911 * x);
  vec4 high = 1.421413741 + t * (-1.453152027 + t * 1.061405429);
  return t * (0.254829592 + t * (-0.284496736 + t * high)) * exp(-x * x);
}
vec4 GELU(vec4 x) {
  vec4 tail = 0.5 * erfc_of(0.707106781 * abs(x));
  return x * mix(1.0 - tail, tail, lessThan(x, vec4(0.0)));
}
vec4 GELU_TANH(vec4 x) { return x * LOGISTIC(1.59576912 * x * (1.0 + 0.044715 * x * x)); }

// The nearest integer; halves are rounded away from zero.
vec4 nearest(vec4 x) {
  const int sign_bit = int(0x80000000u), half_bits = 0x3f000000;
  return trunc(x + intBitsToFloat(floatBitsToInt(x) & sign_bit | half_bits));
}

// The nearest of the real numbers that an 8-bit tensor can hold: multiples of its scale.
vec4 QUANTIZED(vec4 x, float scale, float lowest, float highest) {
  return clamp(nearest(x / scale), lowest, highest) * scale;
}
// Of two, QUANTIZE takes the even multiple, or of integers the higher one.
vec4 QUANTIZED_TO_EVEN(vec4 x, float scale, float lowest, float highest) {
  return clamp(roundEven(x / scale), lowest, highest) * scale;
}
vec4 QUANTIZED_UP(vec4 x, float scale, float lowest, float highest) {
  return clamp(floor(x / scale + 0.5), lowest, highest) * scale;
}

// Of NaN, LiteRT makes the lowest number.
vec4 FAKE_QUANT(vec4 x, float per_unit, float scale, float low, float high) {
  x = mix(clamp(x, low, high), vec4(low), isnan(x));
  return nearest((x - low) * per_unit) * scale + low;
}

vec4 ADD(vec4 a, vec4 b) { return a + b; }
vec4 SUB(vec4 a, vec4 b) { return a + NEG(b); }
vec4 MUL(vec4 a, vec4 b) { return a * b; }
vec4 DIV(vec4 a, vec4 b) { return a / b; }
ivec4 ADD(ivec4 a, ivec4 b) { return a + b; }
ivec4 SUB(ivec4 a, ivec4 b) { return a - b; }
ivec4 MUL(ivec4 a, ivec4 b) { return a * b; }
ivec4 DIV(ivec4 a, ivec4 b) { return a / b; }
vec4 SQUARED_DIFFERENCE(vec4 a, vec4 b) { return SQUARE(SUB(a, b)); }
ivec4 SQUARED_DIFFERENCE(ivec4 a, ivec4 b) { return (a - b) * (a - b); }
vec4 MAXIMUM(vec4 a, vec4 b) { return ordered(max(a, b), a, b); }
vec4 MINIMUM(vec4 a, vec4 b) { return ordered(min(a, b), a, b); }
ivec4 MAXIMUM(ivec4 a, ivec4 b) { return max(a, b); }
ivec4 MINIMUM(ivec4 a, ivec4 b) { return min(a, b); }
vec4 PRELU(vec4 x, vec4 alpha) { return mix(x * alpha, x, greaterThanEqual(x, vec4(0.0))); }
vec4 ATAN2(vec4 y, vec4 x) {
  vec4 at_origin = mix(vec4(0.0), vec4(3.14159265), lessThan(floatBitsToInt(x), ivec4(0)));
  at_origin = mix(at_origin, -at_origin, lessThan(floatBitsToInt(y), ivec4(0)));
  vec4 angle = mix(atan(y, x), at_origin, equal(max(abs(x), abs(y)), vec4(0.0)));
  return keep_nan(keep_nan(angle, x), y);
}

// By long division: each subtraction is exact, and so is the result, as that of C's fmod is.
vec4 FLOOR_MOD(vec4 a, vec4 b) {
  vec4 rest = abs(a), divisor = abs(b), d = divisor;
  for (int i = 0; i < 300 && any(lessThanEqual(d, 0.5 * rest)); ++i)
    d = mix(d, d + d, lessThanEqual(d, 0.5 * rest));
  for (int i = 0; i < 300 && any(greaterThanEqual(d, divisor)); ++i) {
    rest = mix(rest, rest - d, greaterThanEqual(rest, max(d, divisor)));
    d *= 0.5;
  }
  rest *= sign(a);
  rest = mix(rest, rest + b, lessThan(rest * sign(b), vec4(0.0)));
  rest = mix(rest, vec4(NOT_A_NUMBER), equal(divisor, vec4(0.0)));
  return keep_nan(mix(rest, vec4(NOT_A_NUMBER), equal(abs(a), vec4(INFINITY))), a + b);
}
// The floor of the exact quotient, where there is one: a quotient of floats may be rounded up.
vec4 FLOOR_DIV(vec4 a, vec4 b) {
  vec4 exact = roundEven(a / b - FLOOR_MOD(a, b) / b);
  return mix(floor(a / b), exact, lessThan(max(abs(a), abs(b)), vec4(INFINITY)));
}
ivec4 FLOOR_DIV(ivec4 a, ivec4 b) {
  ivec4 quotient = a / b, rest = a - quotient * b;
  return quotient - ivec4(lessThan(sign(rest) * sign(b), ivec4(0)));
}
ivec4 FLOOR_MOD(ivec4 a, ivec4 b) { return a - FLOOR_DIV(a, b) * b; }

// C's pow of x, whose magnitude has the given logarithm.
float power(float x, float y, float log2_x) {
  bool whole = y == floor(y), odd = whole && fract(0.5 * y) == 0.5;
  if (y == 0.0 || x == 1.0 || x == -1.0 && isinf(y)) return 1.0;
  if (x < 0.0 && !whole && !isinf(x)) return NOT_A_NUMBER;
  float magnitude = exp2(y * log2_x);
  return odd && floatBitsToInt(x) < 0 ? -magnitude : magnitude;
}
vec4 POW(vec4 x, vec4 y) {
  vec4 log2_x = log2_of(abs(x)), result;
  for (int i = 0; i < 4; ++i) result[i] = power(x[i], y[i], log2_x[i]);
  return result;
}
ivec4 POW(ivec4 x, ivec4 y) {
  ivec4 result = ivec4(1);
  for (int bit = 0; bit < 31; ++bit) {
    result = choose(result, result * x, notEqual(y >> bit & 1, ivec4(0)));
    x *= x;
  }
  return result;
}

ivec4 EQUAL(vec4 a, vec4 b) { return ivec4(equal(a, b)); }
ivec4 NOT_EQUAL(vec4 a, vec4 b) { return ivec4(notEqual(a, b)); }
ivec4 LESS(vec4 a, vec4 b) { return ivec4(lessThan(a, b)); }
ivec4 LESS_EQUAL(vec4 a, vec4 b) { return ivec4(lessThanEqual(a, b)); }
ivec4 GREATER(vec4 a, vec4 b) { return ivec4(greaterThan(a, b)); }
ivec4 GREATER_EQUAL(vec4 a, vec4 b) { return ivec4(greaterThanEqual(a, b)); }
ivec4 EQUAL(ivec4 a, ivec4 b) { return ivec4(equal(a, b)); }
ivec4 NOT_EQUAL(ivec4 a, ivec4 b) { return ivec4(notEqual(a, b)); }
ivec4 LESS(ivec4 a, ivec4 b) { return ivec4(lessThan(a, b)); }
ivec4 LESS_EQUAL(ivec4 a, ivec4 b) { return ivec4(lessThanEqual(a, b)); }
ivec4 GREATER(ivec4 a, ivec4 b) { return ivec4(greaterThan(a, b)); }
ivec4 GREATER_EQUAL(ivec4 a, ivec4 b) { return ivec4(greaterThanEqual(a, b)); }
// A quantized number as LiteRT compares it: in 256ths, rounded to multiples of `unit` before.
vec4 in_256ths(vec4 x, float unit) { return nearest(nearest(x * (256.0 / unit)) * unit); }

ivec4 BITWISE_XOR(ivec4 a, ivec4 b) { return a ^ b; }
ivec4 SHIFT_LEFT(ivec4 a, ivec4 b) { return a << b; }
ivec4 RIGHT_SHIFT(ivec4 a, ivec4 b) { return a >> clamp(b, 0, 31); }

ivec4 LOGICAL_AND(ivec4 a, ivec4 b) { return a & b; }
ivec4 LOGICAL_OR(ivec4 a, ivec4 b) { return a | b; }
ivec4 LOGICAL_NOT(ivec4 x) { return 1 - x; }

vec4 SELECT(ivec4 condition, vec4 x, vec4 y) { return mix(y, x, notEqual(condition, ivec4(0))); }
ivec4 SELECT(ivec4 condition, ivec4 x, ivec4 y) {
  return choose(y, x, notEqual(condition, ivec4(0)));
}

vec4 CAST_TO_FLOAT16(vec4 x) {
  return vec4(unpackHalf2x16(packHalf2x16(x.xy)), unpackHalf2x16(packHalf2x16(x.zw)));
}
vec4 CAST_TO_FLOAT16(ivec4 x) { return vec4(x); }
vec4 CAST_TO_FLOAT32(ivec4 x) { return vec4(x); }
ivec4 CAST_TO_BOOL(vec4 x) { return ivec4(notEqual(x, vec4(0.0))); }
ivec4 CAST_TO_BOOL(ivec4 x) { return ivec4(notEqual(x, ivec4(0))); }
// Numbers outside the integers' range become the nearest of them, and NaN the largest.
ivec4 CAST_TO_INT32(vec4 x) {
  ivec4 inside = ivec4(clamp(x, -2147483648.0, 2147483520.0)), largest = ivec4(0x7fffffff);
  inside = choose(inside, largest, greaterThan(x, vec4(2147483520.0)));
  return choose(inside, largest, isnan(x));
}
ivec4 CAST_TO_INT64(vec4 x) { return CAST_TO_INT32(x); }
ivec4 CAST_TO_INT16(vec4 x) { return clamp(CAST_TO_INT32(x), -32768, 32767); }
ivec4 CAST_TO_INT8(vec4 x) { return clamp(CAST_TO_INT32(x), -128, 127); }
ivec4 CAST_TO_UINT8(vec4 x) { return clamp(CAST_TO_INT32(x), 0, 255); }
ivec4 BITCAST_TO_INT32(vec4 x) { return floatBitsToInt(x); }
vec4 BITCAST_TO_FLOAT32(ivec4 x) { return intBitsToFloat(x); }
// Of wider integers the lowest bits are kept.
ivec4 CAST_TO_INT32(ivec4 x) { return x; }
ivec4 CAST_TO_INT64(ivec4 x) { return x; }
ivec4 CAST_TO_INT16(ivec4 x) { return x << 16 >> 16; }
ivec4 CAST_TO_INT8(ivec4 x) { return x << 24 >> 24; }
ivec4 CAST_TO_UINT8(ivec4 x) { return x & 255; }
#endif
