// Where K and V of a position lie in the pages, and how they are kept. A page is [layers][K, V][positions][a
// position], and a position of K or V is the values of all heads; 8-bit codes have their scales behind them.
#pragma once
#include "common.h"

enum { StoreF16 = 0, StoreF32 = 1, StoreCodes = 2 };

// position is where K (kv 0) or V (kv 1) of a position begins.
INLINE char *position(char *pool, const int *pages, int pos, int layer, int kv, int pageTokens, i64 pageBytes, i64 rowBytes) {
  return pool + (i64)pages[pos / pageTokens] * pageBytes + (((i64)layer * 2 + kv) * pageTokens + pos % pageTokens) * rowBytes;
}

// keep stores 32 values of a head, one of each lane: those from 32*b on, counted over all heads of blocks each.
// at is the lane's place in the position, there says whether it has one.
template <int STORE> INLINE void keep(char *to, float x, int b, int at, bool there, int width) {
  if (STORE == StoreF32) {
    if (there) ((float *)to)[at] = x;
  } else if (STORE == StoreF16) {
    if (there) ((u16 *)to)[at] = toF16(x);
  } else {
    float high = warpMax(x < 0 ? -x : x);
    u16 scale = toF16(smaller(high / 127.0f, 65504.0f));
    float s = fromF16(scale), inverse = s != 0 ? 1.0f / s : 0;
    int code;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(code) : "f"(x * inverse));
    if (there) ((i8 *)to)[at] = (i8)most(-128, least(127, code));
    if (THREAD % 32 == 0) ((u16 *)(to + (width + 1) / 2 * 2))[b] = scale;
  }
}

// stored is one value of a position.
template <int STORE> INLINE float stored(const char *at, int head, int i, int d, int width) {
  if (STORE == StoreF32) return ((const float *)at)[head * d + i];
  if (STORE == StoreF16) return fromF16(((const u16 *)at)[head * d + i]);
  const u16 *scales = (const u16 *)(at + (width + 1) / 2 * 2);
  return (float)((const i8 *)at)[head * d + i] * fromF16(scales[head * ((d + 31) / 32) + i / 32]);
}
