// Products of rows with matrices: one warp per output, for 1 or 4 rows at a time with the same sums.
#include "common.h"

template <int ROWS> INLINE void product(float *dst, const float *x, const void *w, int type, int n, int rows, int cols) {
  int out = BLOCK_X * 4 + THREAD / 32, first = BLOCK_Y * ROWS;
  if (out >= rows) return;
  const float *from[ROWS];
  float sum[ROWS];
  UNROLLED for (int r = 0; r < ROWS; r++) from[r] = x + (i64)least(first + r, n - 1) * cols, sum[r] = 0;
  dots<ROWS>(type, w, (i64)out * cols, from, cols, sum);
  if (THREAD % 32 != 0) return;
  UNROLLED for (int r = 0; r < ROWS; r++)
    if (first + r < n) dst[(i64)(first + r) * rows + out] = sum[r];
}

KERNEL(128) matmul1(float *dst, const float *x, const void *w, int type, int n, int rows, int cols) {
  product<1>(dst, x, w, type, n, rows, cols);
}
KERNEL(128) matmul4(float *dst, const float *x, const void *w, int type, int n, int rows, int cols) {
  product<4>(dst, x, w, type, n, rows, cols);
}
