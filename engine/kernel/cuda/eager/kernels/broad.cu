// Heads of up to 640 values, and latent attention, whose V is K; and what that computes with each head on its own.
#include "common.h"

enum { Each = 20 }; // times 32 values

// copyHeads has a thread per value.
KERNEL(256) copyHeads(float *dst, const float *src, u32 n, u32 d, u32 toWidth, u32 fromWidth) {
  u32 i = (u32)BLOCK_X * 256 + THREAD;
  if (i >= n) return;
  dst[(u64)(i / d) * toWidth + i % d] = src[(u64)(i / d) * fromWidth + i % d];
}

// headsProduct has a warp per head of a row and output.
KERNEL(128) headsProduct(float *dst, const float *src, const void *w, int type, int heads, int rows, int cols, int toWidth, int fromWidth) {
  int out = BLOCK_Y * 4 + THREAD / 32, lane = THREAD % 32;
  if (out >= rows) return;
  i64 at = ((i64)(BLOCK_X % heads) * rows + out) * cols;
  const float *x = src + (i64)BLOCK_X * fromWidth;
  float sum = 0;
  ROLLED for (int i = lane; i < cols; i += 32) sum = fused(weightAt(type, w, at + i), x[i], sum);
  sum = warpSum(sum);
  if (lane == 0) dst[(i64)BLOCK_X * toWidth + out] = sum;
}

// place is where K of a position begins.
INLINE char *place(char *pool, const int *pages, int pos, i64 layerBytes, int pageTokens, i64 pageBytes, i64 rowBytes) {
  return pool + pages[pos / pageTokens] * pageBytes + layerBytes + pos % pageTokens * rowBytes;
}

// store has a block per row and one of what is stored: K, and V where it is not K. further is where V begins.
template <bool HALF> INLINE void store(char *pool, const float *k, const float *v, const int *rows, const int *tables, i64 layerBytes,
                                       i64 further, int pageTokens, i64 pageBytes, i64 rowBytes, int width) {
  int row = BLOCK_X;
  const float *from = (BLOCK_Y ? v : k) + (i64)row * width;
  char *to = place(pool, tables + rows[2 * row + 1], rows[2 * row], layerBytes, pageTokens, pageBytes, rowBytes) + BLOCK_Y * further;
  ROLLED for (int i = THREAD; i < width; i += 128) {
    if (HALF) ((u16 *)to)[i] = toF16(from[i]);
    else ((float *)to)[i] = from[i];
  }
}

// stored is one value of a position.
template <bool HALF> INLINE float stored(const char *at, int i) { return HALF ? fromF16(((const u16 *)at)[i]) : ((const float *)at)[i]; }

// attention has a block of four warps per row and head; each takes every fourth position, and lane l has the values l,
// l+32 and so on of the head. What the warps found is merged in their order.
template <bool HALF> INLINE void attention(float *dst, const float *q, char *pool, const float *sinks, const int *rows, const int *tables,
                                           i64 layerBytes, i64 further, int pageTokens, i64 pageBytes, i64 rowBytes, int heads,
                                           int kvHeads, int d, int window, float scale) {
  __shared__ float tops[4], sums[4], parts[4][Each * 32];
  int row = BLOCK_X, head = BLOCK_Y, first = head / (heads / kvHeads) * d, lane = THREAD % 32, warp = THREAD / 32;
  int last = rows[2 * row], begin = window > 0 ? most(0, last + 1 - window) : 0;
  const int *table = tables + rows[2 * row + 1];
  i64 own = ((i64)row * heads + head) * d;
  float query[Each], out[Each], top = -infinity(), sum = 0;
  UNROLLED for (int e = 0; e < Each; e++) query[e] = lane + 32 * e < d ? q[own + lane + 32 * e] * scale : 0, out[e] = 0;
  ROLLED for (int pos = begin + warp; pos <= last; pos += 4) {
    const char *k = place(pool, table, pos, layerBytes, pageTokens, pageBytes, rowBytes), *v = k + further;
    float s = 0;
    UNROLLED for (int e = 0; e < Each; e++)
      if (lane + 32 * e < d) s = fused(query[e], stored<HALF>(k, first + lane + 32 * e), s);
    s = warpSum(s);
    float high = larger(top, s), shrink = exponential(top - high), p = exponential(s - high);
    top = high, sum = fused(sum, shrink, p);
    UNROLLED for (int e = 0; e < Each; e++)
      if (lane + 32 * e < d) out[e] = fused(out[e], shrink, p * stored<HALF>(v, first + lane + 32 * e));
  }
  if (lane == 0) tops[warp] = top, sums[warp] = sum;
  UNROLLED for (int e = 0; e < Each; e++) parts[warp][lane + 32 * e] = out[e];
  __syncthreads();
  top = sinks ? sinks[head] : -infinity();
  UNROLLED for (int w = 0; w < 4; w++) top = larger(top, tops[w]);
  sum = sinks ? exponential(sinks[head] - top) : 0;
  UNROLLED for (int w = 0; w < 4; w++) sum = fused(sums[w], exponential(tops[w] - top), sum);
  ROLLED for (int i = THREAD; i < d; i += 128) {
    float x = 0;
    UNROLLED for (int w = 0; w < 4; w++) x = fused(parts[w][i], exponential(tops[w] - top), x);
    dst[own + i] = x * inverse(sum);
  }
}
#define BROAD(name, half)                                                                                                       \
  KERNEL(128) store##name(char *pool, const float *k, const float *v, const int *rows, const int *tables, i64 layerBytes,        \
                          i64 further, int pageTokens, i64 pageBytes, i64 rowBytes, int width) {                                 \
    store<half>(pool, k, v, rows, tables, layerBytes, further, pageTokens, pageBytes, rowBytes, width);                          \
  }                                                                                                                              \
  KERNEL(128) attend##name(float *dst, const float *q, char *pool, const float *sinks, const int *rows, const int *tables,       \
                           i64 layerBytes, i64 further, int pageTokens, i64 pageBytes, i64 rowBytes, int heads, int kvHeads,     \
                           int d, int window, float scale) {                                                                     \
    attention<half>(dst, q, pool, sinks, rows, tables, layerBytes, further, pageTokens, pageBytes, rowBytes, heads, kvHeads, d,  \
                    window, scale);                                                                                              \
  }
BROAD(BroadF16, true)
BROAD(BroadF32, false)
