// Element-wise functions; each carries the name of the TFLite op it computes.

vec4 RELU(vec4 x) { return max(x, 0.0); }
vec4 RELU6(vec4 x) { return clamp(x, 0.0, 6.0); }
vec4 RELU_N1_TO_1(vec4 x) { return clamp(x, -1.0, 1.0); }
vec4 LOGISTIC(vec4 x) { return 1.0 / (1.0 + exp(-x)); }
vec4 TANH(vec4 x) { return tanh(x); }
vec4 EXP(vec4 x) { return exp(x); }

vec4 ADD(vec4 a, vec4 b) { return a + b; }
vec4 SUB(vec4 a, vec4 b) { return a - b; }
vec4 MUL(vec4 a, vec4 b) { return a * b; }
vec4 DIV(vec4 a, vec4 b) { return a / b; }
vec4 MAXIMUM(vec4 a, vec4 b) { return max(a, b); }
vec4 MINIMUM(vec4 a, vec4 b) { return min(a, b); }
vec4 PRELU(vec4 x, vec4 alpha) { return mix(x * alpha, x, greaterThanEqual(x, vec4(0.0))); }
