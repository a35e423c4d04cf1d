// What the kernels of a whole step have in common. A step lies in device memory as the host wrote it: {rows, where
// the page tables begin, 0, 0} and {token, position, page table, state slot, rows of the sequence, saved} of each row, all
// counted in words. The first row of a sequence says how many follow each other, the others 0; saved is the slot that gets
// the state as it stands after the row, or -1. What a launch does for rows that the step does not have costs nothing.
#pragma once
#include "../../eager/kernels/pages.h"

enum { HeaderWords = 4, RowWords = 6 };

INLINE const int *rowOf(const int *step, int row) { return step + HeaderWords + row * RowWords; }

// shuffleFrom is lane from's x.
INLINE float shuffleFrom(float x, int from) {
  float r;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(r) : "f"(x), "r"(from));
  return r;
}

// manyDots adds the products of OUTS rows of a matrix, which begin at values at[], with ROWS rows of x. Each sum
// has the order of dots. cols is a multiple of 8.
template <int TYPE, int OUTS, int ROWS>
INLINE void manyDotsOf(const void *w, const i64 at[OUTS], const float *const x[ROWS], int cols, float sum[OUTS][ROWS]) {
  ROLLED for (int i = THREAD % 32 * 8; i < cols; i += 256) {
    float a[OUTS][8];
    UNROLLED for (int o = 0; o < OUTS; o++) weights8(TYPE, w, at[o] + i, a[o]);
    UNROLLED for (int r = 0; r < ROWS; r++) {
      const float4 *p = (const float4 *)(x[r] + i);
      float4 b = p[0], c = p[1];
      UNROLLED for (int o = 0; o < OUTS; o++) {
        float s = sum[o][r];
        s = fused(a[o][0], b.x, s), s = fused(a[o][1], b.y, s), s = fused(a[o][2], b.z, s), s = fused(a[o][3], b.w, s);
        s = fused(a[o][4], c.x, s), s = fused(a[o][5], c.y, s), s = fused(a[o][6], c.z, s), s = fused(a[o][7], c.w, s);
        sum[o][r] = s;
      }
    }
  }
}

// codesDots is manyDotsOf of one row and codes of E4M3: a byte for a value is little, so a lane reads two eights of each
// matrix row before it needs them. Scales are applied to the sum of eight products.
template <int OUTS> INLINE void codesDots(const void *w, const i64 at[OUTS], const float *x, int cols, float sum[OUTS]) {
  ROLLED for (int i = THREAD % 32 * 8; i < cols; i += 512) {
    int from[2] = {i, least(i + 256, cols - 8)};
    u64 codes[2][OUTS];
    float scale[2][OUTS];
    UNROLLED for (int h = 0; h < 2; h++)
      UNROLLED for (int o = 0; o < OUTS; o++) codes[h][o] = *(const u64 *)((const char *)w + at[o] + from[h]), scale[h][o] = scaleOf(w, at[o] + from[h]);
    UNROLLED for (int h = 0; h < 2; h++) {
      const float4 *p = (const float4 *)(x + from[h]);
      float4 b = p[0], c = p[1];
      bool there = h == 0 || i + 256 < cols;
      UNROLLED for (int o = 0; o < OUTS; o++) {
        float a[8];
        valuesOf(codes[h][o], a);
        float s = a[0] * b.x;
        s = fused(a[1], b.y, s), s = fused(a[2], b.z, s), s = fused(a[3], b.w, s);
        s = fused(a[4], c.x, s), s = fused(a[5], c.y, s), s = fused(a[6], c.z, s), s = fused(a[7], c.w, s);
        sum[o] = fused(there ? scale[h][o] : 0.0f, s, sum[o]);
      }
    }
  }
}

// product leaves in lane o*ROWS+r the product of output first+o of a matrix with row r of x. Outputs behind the last
// are the last.
template <int OUTS, int ROWS>
INLINE float product(int type, const void *w, i64 base, int first, int outputs, const float *const x[ROWS], int cols) {
  i64 at[OUTS];
  float sum[OUTS][ROWS], mine = 0;
  UNROLLED for (int o = 0; o < OUTS; o++) {
    at[o] = base + (i64)least(first + o, outputs - 1) * cols;
    UNROLLED for (int r = 0; r < ROWS; r++) sum[o][r] = 0;
  }
  switch (type) {
  case F32: manyDotsOf<F32, OUTS, ROWS>(w, at, x, cols, sum); break;
  case F16: manyDotsOf<F16, OUTS, ROWS>(w, at, x, cols, sum); break;
  case BF16: manyDotsOf<BF16, OUTS, ROWS>(w, at, x, cols, sum); break;
  case Q8_0: manyDotsOf<Q8_0, OUTS, ROWS>(w, at, x, cols, sum); break;
  case Q4_K: manyDotsOf<Q4_K, OUTS, ROWS>(w, at, x, cols, sum); break;
  case E4M3:
    if (ROWS == 1) {
      float of[OUTS] = {};
      codesDots<OUTS>(w, at, x[0], cols, of);
      UNROLLED for (int o = 0; o < OUTS; o++) sum[o][0] = of[o];
    } else {
      manyDotsOf<E4M3, OUTS, ROWS>(w, at, x, cols, sum);
    }
    break;
  default: __builtin_unreachable();
  }
  UNROLLED for (int o = 0; o < OUTS; o++)
    UNROLLED for (int r = 0; r < ROWS; r++) {
      float s = warpSum(sum[o][r]);
      if (THREAD % 32 == o * ROWS + r) mine = s;
    }
  return mine;
}
