// Attention of many rows over pages of float16: a block has 64 rows of one head, a warp 16 of them. K and V come in tiles of
// positions, two under way; scores and their sums are float32, their exponentials become float16.
#include "wide.h"

enum { Queries = 64 };

// Pages is where K and V of one head of a layer lie.
struct Pages {
  const char *pool;
  const int *table;
  i64 pageBytes, rowBytes, first; // first: K of a page's first position
  int pageTokens, d;
};

// load brings positions of K or V to a tile of rows of D values; those after the last one, and values that heads do
// not have, are zero.
template <int D, int POSITIONS> INLINE void load(const Pages &p, u32 tile, int at, int last, i64 further) {
  ROLLED for (int n = THREAD; n < POSITIONS * D / 8; n += 128) {
    int row = n / (D / 8), column = n % (D / 8), pos = at + row;
    bool there = pos <= last && column * 8 < p.d;
    const char *from = p.pool;
    if (there) from += p.table[pos / p.pageTokens] * p.pageBytes + p.first + further + pos % p.pageTokens * p.rowBytes + column * 16;
    copyAsync(piece<2 * D>(tile, row, column), from, there);
  }
}

// queries takes rows of q, times a factor, to shared memory as float16.
template <int D> INLINE void queries(u32 to, const float *q, int count, int stride, int d, float by) {
  ROLLED for (int n = THREAD; n < Queries * D / 8; n += 128) {
    int row = n / (D / 8), column = n % (D / 8);
    u32 v[4] = {0, 0, 0, 0};
    if (row < count && column * 8 < d) {
      const float *from = q + (i64)row * stride + column * 8;
      UNROLLED for (int j = 0; j < 4; j++) v[j] = pairF16(from[2 * j] * by, from[2 * j + 1] * by);
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(piece<2 * D>(to, row, column)), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
  }
}

// Softmax is that of two rows of a warp: g and g+8 of the group of four lanes.
struct Softmax { float top[2], sum[2]; };

// scores of 16 rows with a tile's positions.
template <int D, int POSITIONS> INLINE void scores(float s[POSITIONS / 8][4], u32 q, u32 k) {
  int lane = THREAD % 32, warp = THREAD / 32;
  UNROLLED for (int j = 0; j < POSITIONS / 8; j++) UNROLLED for (int v = 0; v < 4; v++) s[j][v] = 0;
  ROLLED for (int kk = 0; kk < D / 16; kk++) {
    u32 a[4];
    loadMatrix(a, piece<2 * D>(q, warp * 16 + lane % 16, kk * 2 + lane / 16));
    UNROLLED for (int j = 0; j < POSITIONS / 16; j++) {
      u32 b[4];
      loadMatrix(b, piece<2 * D>(k, j * 16 + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2));
      multiply<false>(s[2 * j], a, b[0], b[1]);
      multiply<false>(s[2 * j + 1], a, b[2], b[3]);
    }
  }
}

// hide leaves out what a row does not see: first is the position of the tile's, row that of the warp's first row.
template <int POSITIONS> INLINE void hide(float s[POSITIONS / 8][4], int first, int row, int window) {
  int lane = THREAD % 32;
  UNROLLED for (int j = 0; j < POSITIONS / 8; j++)
    UNROLLED for (int v = 0; v < 4; v++) {
      int pos = first + j * 8 + lane % 4 * 2 + v % 2, own = row + lane / 4 + v / 2 * 8;
      if (pos > own || (window > 0 && pos <= own - window)) s[j][v] = -infinity();
    }
}

// weigh makes weights of scores, which are powers of two, and rescales what was summed before.
template <int D, int POSITIONS> INLINE void weigh(float s[POSITIONS / 8][4], float out[D / 8][4], Softmax &f) {
  UNROLLED for (int r = 0; r < 2; r++) {
    float high = f.top[r], sum = 0;
    UNROLLED for (int j = 0; j < POSITIONS / 8; j++) high = larger(high, larger(s[j][2 * r], s[j][2 * r + 1]));
    high = larger(high, shuffleXor(high, 1));
    high = larger(high, shuffleXor(high, 2));
    float base = high == -infinity() ? 0 : high, shrink = power2(f.top[r] - base);
    UNROLLED for (int j = 0; j < POSITIONS / 8; j++)
      UNROLLED for (int v = 2 * r; v < 2 * r + 2; v++) s[j][v] = power2(s[j][v] - base), sum += s[j][v];
    UNROLLED for (int j = 0; j < D / 8; j++) out[j][2 * r] *= shrink, out[j][2 * r + 1] *= shrink;
    f.top[r] = high, f.sum[r] = fused(f.sum[r], shrink, sum);
  }
}

// gather adds the weighted V of a tile.
template <int D, int POSITIONS> INLINE void gather(float out[D / 8][4], const float s[POSITIONS / 8][4], u32 v) {
  int lane = THREAD % 32;
  UNROLLED for (int kk = 0; kk < POSITIONS / 16; kk++) {
    const float *low = s[2 * kk], *high = s[2 * kk + 1];
    u32 a[4] = {pairF16(low[0], low[1]), pairF16(low[2], low[3]), pairF16(high[0], high[1]), pairF16(high[2], high[3])};
    UNROLLED for (int j = 0; j < D / 16; j++) {
      u32 b[4];
      loadTransposed(b, piece<2 * D>(v, kk * 16 + lane % 16, j * 2 + lane / 16));
      multiply<false>(out[2 * j], a, b[0], b[1]);
      multiply<false>(out[2 * j + 1], a, b[2], b[3]);
    }
  }
}

// finish divides by the sums and writes the rows that there are.
template <int D> INLINE void finish(float *dst, const float out[D / 8][4], const Softmax &f, float sink, int count, int stride, int d) {
  int lane = THREAD % 32, warp = THREAD / 32;
  UNROLLED for (int r = 0; r < 2; r++) {
    float sum = f.sum[r];
    sum += shuffleXor(sum, 1);
    sum += shuffleXor(sum, 2);
    float top = larger(f.top[r], sink), shrink = power2(f.top[r] - top);
    float by = shrink * inverse(fused(sum, shrink, power2(sink - top)));
    int row = warp * 16 + lane / 4 + r * 8;
    if (row >= count) continue;
    UNROLLED for (int j = 0; j < D / 8; j++)
      if (j * 8 < d)
        UNROLLED for (int v = 0; v < 2; v++) dst[(i64)row * stride + j * 8 + lane % 4 * 2 + v] = out[j][2 * r + v] * by;
  }
}

extern __shared__ __attribute__((aligned(128))) u8 tiles[]; // queries, two of K, two of V

// attention of a tile {first row, rows, position of the first one, where its page table begins}.
template <int D, int POSITIONS>
INLINE void attention(float *dst, const float *q, const char *pool, const float *sinks, const int *parts, const int *tables, int layer,
                      int pageTokens, i64 pageBytes, i64 rowBytes, int heads, int kvHeads, int d, int window, float scale) {
  const float toPowers = 1.44269504f;
  const int *part = parts + 4 * BLOCK_X;
  int head = BLOCK_Y, stride = heads * d, count = part[1], pos = part[2], last = pos + count - 1;
  i64 at = (i64)part[0] * stride + head * d, layerBytes = pageTokens * rowBytes;
  Pages p = {pool, tables + part[3], pageBytes, rowBytes, 2 * layer * layerBytes + head / (heads / kvHeads) * d * 2, pageTokens, d};
  u32 own = sharedAddress(tiles), keys = own + Queries * D * 2, values = keys + 2 * POSITIONS * D * 2;
  int first = window > 0 ? most(0, pos + 1 - window) / POSITIONS * POSITIONS : 0, now = 0;
  float out[D / 8][4];
  Softmax f = {{-infinity(), -infinity()}, {0, 0}};
  UNROLLED for (int j = 0; j < D / 8; j++) UNROLLED for (int v = 0; v < 4; v++) out[j][v] = 0;
  load<D, POSITIONS>(p, keys, first, last, 0), load<D, POSITIONS>(p, values, first, last, layerBytes);
  commitAsync();
  queries<D>(own, q + at, count, stride, d, scale * toPowers);
  ROLLED for (; first <= last; first += POSITIONS, now ^= 1) {
    u32 k = keys + now * POSITIONS * D * 2, v = values + now * POSITIONS * D * 2;
    if (first + POSITIONS <= last) {
      load<D, POSITIONS>(p, keys + (now ^ 1) * POSITIONS * D * 2, first + POSITIONS, last, 0);
      load<D, POSITIONS>(p, values + (now ^ 1) * POSITIONS * D * 2, first + POSITIONS, last, layerBytes);
    }
    commitAsync();
    waitAsync<1>();
    __syncthreads();
    float s[POSITIONS / 8][4];
    scores<D, POSITIONS>(s, own, k);
    if (first + POSITIONS - 1 > pos || window > 0) hide<POSITIONS>(s, first, pos + THREAD / 32 * 16, window);
    weigh<D, POSITIONS>(s, out, f);
    gather<D, POSITIONS>(out, s, v);
    __syncthreads();
  }
  finish<D>(dst + at, out, f, sinks ? sinks[head] * toPowers : -infinity(), count, stride, d);
}
#define ATTEND(name, width, positions)                                                                                      \
  KERNEL(128) name(float *dst, const float *q, const char *pool, const float *sinks, const int *parts, const int *tables, int layer, \
                   int pageTokens, i64 pageBytes, i64 rowBytes, int heads, int kvHeads, int d, int window, float scale) {    \
    attention<width, positions>(dst, q, pool, sinks, parts, tables, layer, pageTokens, pageBytes, rowBytes, heads, kvHeads, d, \
                                window, scale);                                                                              \
  }
ATTEND(attendMany64, 64, 64)
ATTEND(attendMany128, 128, 64)
ATTEND(attendMany256, 256, 32)
