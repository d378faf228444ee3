// The transforms of Winograd's convolution along one axis; see ops/lib/winograd.py.
#ifndef LIB_WINOGRAD
#define LIB_WINOGRAD
// The points are 0, P, -P, Q, -Q and infinity.
#define P 0.75
#define Q 1.5
#define PP (P * P)
#define QQ (Q * Q)
#define EDGE 4
#define SIDE 6

// The factor of input `i` in number `row`.
float input_factor(int row, int i) {
  float outer = i < 2 ? PP * QQ : i < 4 ? -PP - QQ : 1.0;
  float point = row < 3 ? P : Q, other = row < 3 ? -QQ : -PP;
  if (row % 2 == 0) point = -point;
  float inner = i == 1 ? point * other : i == 2 ? other : i == 3 ? point : 1.0;
  bool is_outer = row == 0 || row == SIDE - 1;
  bool used = is_outer ? i % 2 == row % 2 : i > 0 && i < SIDE - 1;
  return used ? (is_outer ? outer : inner) : 0.0;
}

// The factor of sum `i` in output `row`.
float sum_factor(int row, int i) {
  float point = i == 0 ? 0.0 : i < 3 ? P : Q;
  if (i % 2 == 0) point = -point;
  float power = row == 0   ? 1.0
                : row == 1 ? point
                : row == 2 ? point * point
                           : point * point * point;
  return i == SIDE - 1 ? float(row / (EDGE - 1)) : power;
}

void transform_inputs(inout vec4 v[SIDE]) {
  vec4 one = v[1], two = v[2], three = v[3], four = v[4];
  v[0] = PP * QQ * v[0] - (PP + QQ) * two + four;
  v[5] += PP * QQ * one - (PP + QQ) * three;
  vec4 even = four - QQ * two, odd = P * (three - QQ * one);
  v[1] = even + odd;
  v[2] = even - odd;
  even = four - PP * two;
  odd = Q * (three - PP * one);
  v[3] = even + odd;
  v[4] = even - odd;
}

// Leaves the outputs in the first EDGE.
void transform_sums(inout vec4 m[SIDE]) {
  vec4 even = m[1] + m[2], odd = m[1] - m[2], more = m[3] + m[4], rest = m[3] - m[4];
  m[0] += even + more;
  m[1] = P * odd + Q * rest;
  m[2] = PP * even + QQ * more;
  m[3] = PP * P * odd + QQ * Q * rest + m[5];
}
#endif
