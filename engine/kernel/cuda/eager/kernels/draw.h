// What draws are made of: weights, the order of logits, and what a block of 256 threads finds together.
#pragma once
#include "common.h"

enum { Threads = 256 };

struct Memory {
  double sums[Threads];
  int counts[Threads];
  int found;
};

INLINE double exact(float x) { double d; asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(x)); return d; }
INLINE double fused64(double a, double b, double c) { double r; asm("fma.rn.f64 %0, %1, %2, %3;" : "=d"(r) : "d"(a), "d"(b), "d"(c)); return r; }
INLINE double times(double a, double b) { double r; asm("mul.rn.f64 %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b)); return r; }
INLINE i64 bits64(double x) { i64 r; asm("mov.b64 %0, %1;" : "=l"(r) : "d"(x)); return r; }
INLINE double fromBits64(i64 x) { double r; asm("mov.b64 %0, %1;" : "=d"(r) : "l"(x)); return r; }
INLINE int bits32(float x) { int r; asm("mov.b32 %0, %1;" : "=r"(r) : "f"(x)); return r; }

// weightOf is e^x of x <= 0, in the operations of package sample.
INLINE double weightOf(double x) {
  if (!(x >= -708.0)) return 0;
  double rounded = fused64(x, 1.4426950408889634, 6755399441055744.0);
  double r = fused64(rounded - 6755399441055744.0, -0.6931471805599453, x), square = r * r;
  double even = fused64(1. / 3628800, square, 1. / 40320), odd = fused64(1. / 362880, square, 1. / 5040);
  even = fused64(even, square, 1. / 720), odd = fused64(odd, square, 1. / 120);
  even = fused64(even, square, 1. / 24), odd = fused64(odd, square, 1. / 6);
  even = fused64(even, square, 1. / 2), odd = fused64(odd, square, 1);
  double p = fused64(odd, r, fused64(even, square, 1));
  return fromBits64(bits64(p) + (bits64(rounded) << 52));
}

// order numbers floats so that larger ones have larger numbers; value goes back.
INLINE int order(float x) { int b = bits32(x + 0.0f); return b < 0 ? -(b & 0x7fffffff) : b; }
INLINE float value(int i) { return fromBits(i < 0 ? (u32)(-i) | 0x80000000u : (u32)i); }

INLINE double sumAll(Memory &m, double x) {
  __syncthreads();
  m.sums[THREAD] = x;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s) m.sums[THREAD] += m.sums[THREAD + s];
  }
  __syncthreads();
  return m.sums[0];
}
// leastAll is the lowest id that a thread found, negative ones apart.
INLINE int leastAll(Memory &m, int x) {
  __syncthreads();
  m.counts[THREAD] = x < 0 ? 0x7fffffff : x;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s) m.counts[THREAD] = least(m.counts[THREAD], m.counts[THREAD + s]);
  }
  __syncthreads();
  return m.counts[0];
}
// mostAll is the largest number.
INLINE int mostAll(Memory &m, int x) {
  __syncthreads();
  m.counts[THREAD] = x;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s) m.counts[THREAD] = most(m.counts[THREAD], m.counts[THREAD + s]);
  }
  __syncthreads();
  return m.counts[0];
}

INLINE void hide(float *x, int vocab, const int *list, int n) {
  ROLLED for (int i = THREAD; i < n; i += Threads)
    if (list[i] >= 0 && list[i] < vocab) x[list[i]] = -infinity();
}
