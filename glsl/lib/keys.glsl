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
#endif
