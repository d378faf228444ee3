// Element-wise functions; each carries the name of the TFLite op it computes.
//
// max, min, clamp and tanh may lose a NaN that LiteRT keeps, and compilers make max and min of
// comparisons, so NaN is looked for by itself.

// `result`, but NaN where x is NaN.
vec4 keep_nan(vec4 result, vec4 x) { return mix(result, x, notEqual(x, x)); }
// `result`, but b where a or b is NaN: what a comparison of LiteRT's falls back to.
vec4 ordered(vec4 result, vec4 a, vec4 b) { return mix(keep_nan(result, b), b, notEqual(a, a)); }

vec4 RELU(vec4 x) { return keep_nan(max(x, 0.0), x); }
vec4 RELU6(vec4 x) { return keep_nan(clamp(x, 0.0, 6.0), x); }
vec4 RELU_N1_TO_1(vec4 x) { return keep_nan(clamp(x, -1.0, 1.0), x); }
vec4 LOGISTIC(vec4 x) { return 1.0 / (1.0 + exp(-x)); }
vec4 TANH(vec4 x) { return keep_nan(tanh(x), x); }
vec4 EXP(vec4 x) { return exp(x); }

// The nearest of the real numbers that an 8-bit tensor can hold: multiples of its scale.
vec4 QUANTIZED(vec4 x, float scale, float lowest, float highest) {
  vec4 steps = sign(x) * floor(abs(x) / scale + 0.5);
  return clamp(steps, lowest, highest) * scale;
}

vec4 ADD(vec4 a, vec4 b) { return a + b; }
vec4 SUB(vec4 a, vec4 b) { return a - b; }
vec4 MUL(vec4 a, vec4 b) { return a * b; }
vec4 DIV(vec4 a, vec4 b) { return a / b; }
vec4 MAXIMUM(vec4 a, vec4 b) { return ordered(max(a, b), a, b); }
vec4 MINIMUM(vec4 a, vec4 b) { return ordered(min(a, b), a, b); }
vec4 PRELU(vec4 x, vec4 alpha) { return mix(x * alpha, x, greaterThanEqual(x, vec4(0.0))); }
