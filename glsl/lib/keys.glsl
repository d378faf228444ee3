// Integers in the order of the numbers that they stand for; 0 and -0 become one, and NaN the lowest.
#ifndef LIB_KEYS
#define LIB_KEYS
#define NONE (-0x7fffffff - 1)  // less than every other number's key

int key_of(int number) { return number; }
int key_of(float number) {
  int bits = floatBitsToInt(number), magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return NONE;
  return bits < 0 ? -magnitude : magnitude;
}

// For STABLEHLO_SORT, in which NaN is the largest number, and the largest key comes first.
int reversed(int number) { return ~number; }
int reversed(float number) { return -key_of(number); }  // that of NaN stays NONE
// The total order of IEEE 754, in which -NaN comes before all, and -0 before 0.
int in_total(float number) {
  int bits = floatBitsToInt(number);
  return bits ^ (bits >> 31 & 0x7fffffff);
}
#define ASCENDING(number) reversed(number)
#define DESCENDING(number) (~reversed(number))
#define ASCENDING_IN_TOTAL(number) (~in_total(number))
#define DESCENDING_IN_TOTAL(number) in_total(number)
#endif
