// Storing K and V in pages, and attention over them.
#include "pages.h"

// storeKV has a block per row and one of K and V, with a warp per block of 32 values of a head in turn.
// rows are {position, where its page table begins} of each row.
template <int STORE> INLINE void store(char *pool, const float *k, const float *v, const int *rows, const int *tables, int layer,
                                       int pageTokens, i64 pageBytes, i64 rowBytes, int heads, int d) {
  int row = BLOCK_X, kv = BLOCK_Y, lane = THREAD % 32, blocks = (d + 31) / 32, width = heads * d;
  const float *from = (kv ? v : k) + (i64)row * width;
  char *to = position(pool, tables + rows[2 * row + 1], rows[2 * row], layer, kv, pageTokens, pageBytes, rowBytes);
  ROLLED for (int b = THREAD / 32; b < heads * blocks; b += THREADS / 32) {
    int in = b % blocks * 32 + lane, at = b / blocks * d + in;
    bool there = in < d;
    keep<STORE>(to, there ? from[at] : 0, b, at, there, width);
  }
}
#define STORE_KV(name, kind)                                                                                              \
  KERNEL(128) name(char *pool, const float *k, const float *v, const int *rows, const int *tables, int layer, int pageTokens, \
                   i64 pageBytes, i64 rowBytes, int heads, int d) {                                                        \
    store<kind>(pool, k, v, rows, tables, layer, pageTokens, pageBytes, rowBytes, heads, d);                               \
  }
STORE_KV(storeF16, StoreF16)
STORE_KV(storeF32, StoreF32)
STORE_KV(storeCodes, StoreCodes)

// attention has a block of four warps per row and head; each takes every fourth position, and lane l has
// the values l, l+32 and so on of the head. What the warps found is merged in their order.
template <int STORE, int EACH> INLINE void attention(float *dst, const float *q, char *pool, const float *sinks, const int *rows,
                                                     const int *tables, int layer, int pageTokens, i64 pageBytes, i64 rowBytes,
                                                     int heads, int kvHeads, int d, int window, float scale) {
  __shared__ float tops[4], sums[4], parts[4][EACH * 32];
  int row = BLOCK_X, head = BLOCK_Y, kvHead = head / (heads / kvHeads), lane = THREAD % 32, warp = THREAD / 32;
  int last = rows[2 * row], first = window > 0 ? most(0, last + 1 - window) : 0;
  const int *table = tables + rows[2 * row + 1];
  const float *from = q + ((i64)row * heads + head) * d;
  float query[EACH], out[EACH], top = -infinity(), sum = 0;
  UNROLLED for (int e = 0; e < EACH; e++) query[e] = lane + 32 * e < d ? from[lane + 32 * e] * scale : 0, out[e] = 0;
  ROLLED for (int pos = first + warp; pos <= last; pos += 4) {
    const char *k = position(pool, table, pos, layer, 0, pageTokens, pageBytes, rowBytes);
    const char *v = position(pool, table, pos, layer, 1, pageTokens, pageBytes, rowBytes);
    float s = 0;
    UNROLLED for (int e = 0; e < EACH; e++)
      if (lane + 32 * e < d) s = fused(query[e], stored<STORE>(k, kvHead, lane + 32 * e, d, kvHeads * d), s);
    s = warpSum(s);
    float high = larger(top, s), shrink = exponential(top - high), p = exponential(s - high);
    top = high, sum = fused(sum, shrink, p);
    UNROLLED for (int e = 0; e < EACH; e++) {
      float x = lane + 32 * e < d ? stored<STORE>(v, kvHead, lane + 32 * e, d, kvHeads * d) : 0;
      out[e] = fused(out[e], shrink, p * x);
    }
  }
  if (lane == 0) tops[warp] = top, sums[warp] = sum;
  UNROLLED for (int e = 0; e < EACH; e++) parts[warp][lane + 32 * e] = out[e];
  __syncthreads();
  top = sinks ? sinks[head] : -infinity();
  UNROLLED for (int w = 0; w < 4; w++) top = larger(top, tops[w]);
  sum = sinks ? exponential(sinks[head] - top) : 0;
  UNROLLED for (int w = 0; w < 4; w++) sum = fused(sums[w], exponential(tops[w] - top), sum);
  ROLLED for (int i = THREAD; i < d; i += 128) {
    float x = 0;
    UNROLLED for (int w = 0; w < 4; w++) x = fused(parts[w][i], exponential(tops[w] - top), x);
    dst[((i64)row * heads + head) * d + i] = x * inverse(sum);
  }
}
#define ATTEND(name, kind, each)                                                                                         \
  KERNEL(128) name(float *dst, const float *q, char *pool, const float *sinks, const int *rows, const int *tables, int layer,  \
                   int pageTokens, i64 pageBytes, i64 rowBytes, int heads, int kvHeads, int d, int window, float scale) {      \
    attention<kind, each>(dst, q, pool, sinks, rows, tables, layer, pageTokens, pageBytes, rowBytes, heads, kvHeads, d, window, scale); \
  }
ATTEND(attendF16x2, StoreF16, 2)
ATTEND(attendF16x4, StoreF16, 4)
ATTEND(attendF16x8, StoreF16, 8)
ATTEND(attendF32x8, StoreF32, 8)
ATTEND(attendCodesx8, StoreCodes, 8)
