// Random words: Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", 2011), whose counter continues where the run before ended.
#ifndef LIB_PHILOX
#define LIB_PHILOX
#ifndef ASSEMBLED
#define SEEDED 1  // 0: the key is the session's own
#define KEY uvec2(1u, 0u)
#define STREAM uvec2(2u, 0u)
#define DRAWS 15u  // of a run
#endif

// The upper words of the products of words: umulExtended() crashes Mesa's llvmpipe.
uvec2 upper(uvec2 a, uvec2 b) {
  uvec2 al = a & 0xffffu, ah = a >> 16, bl = b & 0xffffu, bh = b >> 16;
  uvec2 middle = ah * bl + (al * bl >> 16), other = al * bh + (middle & 0xffffu);
  return ah * bh + (middle >> 16) + (other >> 16);
}

// Draw `index` of a run. `runs`: how many came before it, 0, and the session's key.
uvec4 draw(uint index, ivec4 runs) {
  uvec2 before = uvec2(uint(runs.x) * DRAWS, upper(uvec2(runs.x), uvec2(DRAWS)).x);
  uvec4 counter = uvec4(before.x + index, before.y, STREAM);
  if (counter.x < index) ++counter.y;
#if SEEDED
  uvec2 key = KEY;
#else
  uvec2 key = uvec2(runs.zw);
#endif
  const uvec2 factors = uvec2(0xd2511f53u, 0xcd9e8d57u);
  for (int i = 0; i < 10; ++i) {
    uvec2 low = factors * counter.xz, high = upper(factors, counter.xz);
    counter = uvec4(high.y ^ counter.y ^ key.x, low.y, high.x ^ counter.w ^ key.y, low.x);
    key += uvec2(0x9e3779b9u, 0xbb67ae85u);
  }
  return counter;
}

// Numbers from 0 to below 1 of the low 23 bits of words.
vec4 fractions(uvec4 words) { return vec4(words & 0x7fffffu) * (1.0 / 8388608.0); }
#endif
