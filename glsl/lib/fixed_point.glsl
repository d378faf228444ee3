// LOGISTIC and TANH of 16-bit fixed-point numbers, bit by bit as LiteRT's integer kernels have them:
// gemmlowp's exp by a Taylor series and table, and its division by Newton's method. Numbers with n
// integer bits are multiples of 2^(n - 15); the results have none.
#ifndef LIB_FIXED_POINT
#define LIB_FIXED_POINT
#include "lib/tensor.glsl"

ivec4 in_16_bits(ivec4 x) { return clamp(x, -32768, 32767); }

// The product of numbers of which one has no integer bits.
ivec4 times(ivec4 a, ivec4 b) { return (a * b + 0x4000) >> 15; }
ivec4 times(ivec4 a, int b) { return (a * b + 0x4000) >> 15; }

// x / 2^exponent to the nearest, for an exponent above 0; halves are rounded away from zero.
ivec4 divided(ivec4 x, int exponent) { return (x + (1 << exponent >> 1) + (x >> 31)) >> exponent; }

// e^x for x <= 0.
ivec4 exp_16(ivec4 x, int bits) {
  const int factors[7] = int[7](25520, 19875, 12055, 4435, 600, 11, 0);  // e^-1/4, e^-1/2 ...
  int quarter = 1 << (13 - bits);
  ivec4 part = (x & (quarter - 1)) - quarter, rest = part - x;  // part in [-1/4, 0)
  ivec4 a = (part << bits) + 0x1000, a2 = times(a, a), a3 = times(a2, a), a4 = times(a2, a2);
  ivec4 series = a + divided(times(divided(a4, 2) + a3, 10923) + a2, 1);
  ivec4 result = min(28918 + times(series, 28918), 32767);
  for (int i = 0; i < 7 && i < bits + 2; ++i)
    result = choose(result, times(result, factors[i]), notEqual(rest & quarter << i, ivec4(0)));
  if (bits > 5) result = choose(result, ivec4(0), lessThan(x, ivec4(-1 << (20 - bits))));
  return choose(result, ivec4(32767), equal(x, ivec4(0)));
}

// 2 / (1 + x) for 0 <= x <= 1, with two integer bits.
ivec4 twice_inverse(ivec4 x) {
  ivec4 half_sum = (x + 32768) >> 1;
  ivec4 y = 23130 + times(half_sum, -15420);
  for (int i = 0; i < 3; ++i) y += in_16_bits(times(y, 8192 - times(half_sum, y)) << 2);
  return y;
}

ivec4 LOGISTIC_16(ivec4 x) {
  ivec4 y = in_16_bits(twice_inverse(exp_16(-abs(x), 3)) << 1);
  y = choose(y, 32767 - y, lessThan(x, ivec4(0)));
  return choose(y, ivec4(16384), equal(x, ivec4(0)));
}

ivec4 TANH_16(ivec4 x, int bits) {
  return sign(x) * in_16_bits((twice_inverse(exp_16(-abs(x), bits + 1)) - 8192) << 2);
}
#endif
