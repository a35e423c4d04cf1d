// Products of many rows with matrices on matrix units: tiles of 128 rows by 128 outputs by 64 of the depth, 8 warps,
// 3 stages of copies. Rows of x are 16-bit values and a factor; the values of matrices become 16-bit ones on their way.
#include "wide.h"

enum { TileRows = 128, TileOuts = 128, Depth = 64, Stages = 3, Threads = 256 };
enum { TileBytes = TileRows * Depth * 2, StageBytes = 2 * TileBytes };

// narrow has a block per row, in order or as a list says: 16-bit values, and what they are to be multiplied by. Float16
// holds no more than 65504: larger rows become smaller by a power of two.
KERNEL(128) narrow(u16 *dst, float *factors, const float *x, const int *rows, int d, int brain) {
  __shared__ float scratch[4];
  const float *row = x + (i64)(rows ? rows[BLOCK_X] : BLOCK_X) * d;
  u32 *to = (u32 *)(dst + (i64)BLOCK_X * d);
  float high = 0, factor = 1;
  if (!brain) {
    ROLLED for (int i = THREAD; i < d; i += 128) high = larger(high, row[i] < 0 ? -row[i] : row[i]);
    high = warpMax(high);
    if (THREAD % 32 == 0) scratch[THREAD / 32] = high;
    __syncthreads();
    ROLLED for (int w = 0; w < 4; w++) high = larger(high, scratch[w]);
    ROLLED while (high > 32768.0f && high < infinity()) high *= 0.5f, factor *= 2.0f;
  }
  float by = inverse(factor);
  ROLLED for (int i = THREAD; i < d / 2; i += 128)
    to[i] = brain ? pairBF16(row[2 * i], row[2 * i + 1]) : pairF16(row[2 * i] * by, row[2 * i + 1] * by);
  if (THREAD == 0) factors[BLOCK_X] = factor;
}

// Operand is the rows of a tile: 16 bytes of the depth of each fourth of them are this thread's.
struct Operand {
  const u16 *from[4];
  bool there[4];
};

INLINE void load(const Operand &o, u32 tile, int at, int k) {
  int column = at + THREAD % 8 * 8;
  UNROLLED for (int i = 0; i < 4; i++)
    copyAsync(piece<128>(tile, THREAD / 8 + 32 * i, THREAD % 8), o.from[i] + column, o.there[i] && column < k);
}

// Tile is rows that one expert has, or that follow each other.
struct Tile { int expert, first, count; };

// rowsOf are the rows of a tile, or those that a list has at its places.
template <bool LISTED> INLINE Operand rowsOf(const u16 *x, const int *rows, const Tile &t, int k) {
  Operand o;
  UNROLLED for (int i = 0; i < 4; i++) {
    int r = THREAD / 8 + 32 * i;
    o.there[i] = r < t.count;
    int at = t.first + (r < t.count ? r : 0);
    o.from[i] = x + (i64)(LISTED ? rows[at] : at) * k;
  }
  return o;
}

// outputsOf are 128 rows of one matrix, or 64 of each of two.
template <bool TWO> INLINE Operand outputsOf(const u16 *w, const u16 *w2, i64 first, int out, int outs, int k) {
  Operand o;
  UNROLLED for (int i = 0; i < 4; i++) {
    int r = out + THREAD / 8 + 32 * (TWO ? i % 2 : i);
    o.there[i] = r < outs;
    o.from[i] = (TWO && i >= 2 ? w2 : w) + (first + (r < outs ? r : 0)) * k;
  }
  return o;
}

// What a tile of a matrix is made of: 16-bit values that are copied as they are, or blocks that become float16 on their way.
// Of blocks and of codes of E4M3, a thread has 32 values of one row, whose words it holds while the tile before is multiplied.
enum Form { Half = 0, Brain = 1, Eights = 2, Fours = 3, Codes = 4 };

template <int FORM> struct Blocks {
  enum { Values = FORM == Eights ? 32 : FORM == Fours ? 256 : 1, Bytes = FORM == Eights ? BlockQ8 : FORM == Fours ? BlockQ4 : 1 };
  enum { Words = FORM == Fours ? 12 : 9 };
  const char *row;
  int scale; // of the first codes, counted backward from the matrix
  bool there;
  u32 words[Words];
};

// blocksOf is the row of this thread: of 128 of one matrix, or of 64 of each of two.
template <int FORM, bool TWO> INLINE void blocksOf(Blocks<FORM> &b, const void *w, const void *w2, i64 first, int out, int outs, int k) {
  int r = THREAD / 2 % (TWO ? 64 : 128) + out;
  b.there = r < outs;
  const void *of = TWO && THREAD >= 128 ? w2 : w;
  i64 row = first + (r < outs ? r : 0);
  b.row = (const char *)of + row * (k / Blocks<FORM>::Values) * Blocks<FORM>::Bytes;
  b.scale = (int)row * (k / 128);
}

// fetch reads 32 values from a place on, nothing behind the end.
INLINE void fetch(Blocks<Eights> &b, const void *, int at, int k) {
  at += THREAD % 2 * 32;
  UNROLLED for (int i = 0; i < 9; i++) b.words[i] = 0;
  if (!b.there || at >= k) return;
  const char *block = b.row + at / 32 * BlockQ8;
  // Blocks begin at every second byte, words at every fourth.
  bool odd = (u64)block & 2;
  const u32 *from = (const u32 *)(block - (odd ? 2 : 0));
  UNROLLED for (int i = 0; i < 9; i++) b.words[i] = from[i];
  u32 scale = odd ? b.words[0] >> 16 : b.words[0];
  UNROLLED for (int i = 0; i < 8; i++) b.words[i] = odd ? b.words[i + 1] : b.words[i] >> 16 | b.words[i + 1] << 16;
  b.words[8] = scale;
}
INLINE void fetch(Blocks<Fours> &b, const void *, int at, int k) {
  UNROLLED for (int i = 0; i < 12; i++) b.words[i] = 0;
  if (!b.there || at >= k) return;
  const uint4 *block = (const uint4 *)(b.row + at / 256 * BlockQ4), *codes = block + 1 + at % 256 / 32;
  uint4 all[3] = {block[0], codes[0], codes[1]};
  UNROLLED for (int i = 0; i < 3; i++)
    b.words[4 * i] = all[i].x, b.words[4 * i + 1] = all[i].y, b.words[4 * i + 2] = all[i].z, b.words[4 * i + 3] = all[i].w;
}
INLINE void fetch(Blocks<Codes> &b, const void *w, int at, int k) {
  at += THREAD % 2 * 32;
  UNROLLED for (int i = 0; i < 9; i++) b.words[i] = 0;
  if (!b.there || at >= k) return;
  const uint4 *codes = (const uint4 *)(b.row + at);
  uint4 all[2] = {codes[0], codes[1]};
  UNROLLED for (int i = 0; i < 2; i++)
    b.words[4 * i] = all[i].x, b.words[4 * i + 1] = all[i].y, b.words[4 * i + 2] = all[i].z, b.words[4 * i + 3] = all[i].w;
  b.words[8] = ((const u32 *)w)[-1 - b.scale - at / 128];
}

// valuesOf are the i-th eight of them.
INLINE void valuesOf(float v[8], const Blocks<Eights> &b, int i, int at) {
  float scale = fromF16((u16)b.words[8]);
  UNROLLED for (int j = 0; j < 8; j++) v[j] = scale * (float)((int)(b.words[2 * i + j / 4] << (24 - j % 4 * 8)) >> 24);
}
INLINE void valuesOf(float v[8], const Blocks<Fours> &b, int i, int at) {
  uint4 head = {b.words[0], b.words[1], b.words[2], b.words[3]};
  int half = THREAD % 2;
  Range r = rangeOf(head, at % 256 / 32 + half);
  UNROLLED for (int j = 0; j < 8; j++)
    v[j] = fused(r.scale, (float)(b.words[4 + 2 * i + j / 4] >> half * 4 >> j % 4 * 8 & 15), -r.least);
}
INLINE void valuesOf(float v[8], const Blocks<Codes> &b, int i, int at) {
  float scale = fromBits(b.words[8]) * 256.0f;
  valuesOf((u64)b.words[2 * i + 1] << 32 | b.words[2 * i], v);
  UNROLLED for (int j = 0; j < 8; j++) v[j] *= scale;
}

// stash leaves them in a tile.
template <int FORM> INLINE void stash(const Blocks<FORM> &b, u32 tile, int at) {
  UNROLLED for (int i = 0; i < 4; i++) {
    float v[8];
    valuesOf(v, b, i, at);
    u32 to = piece<128>(tile, THREAD / 2, THREAD % 2 * 4 + i);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(pairF16(v[0], v[1])), "r"(pairF16(v[2], v[3])),
                 "r"(pairF16(v[4], v[5])), "r"(pairF16(v[6], v[7])) : "memory");
  }
}

// productOf leaves 64 rows x 32 outputs of the tile in each warp: sums of outputs 16·(warp%4) and, 64 further, as many.
template <bool BRAIN> INLINE void productOf(float sum[4][4][4], u32 stage) {
  int lane = THREAD % 32, warp = THREAD / 32;
  UNROLLED for (int kk = 0; kk < Depth / 16; kk++) {
    u32 a[4][4], b[2][4];
    UNROLLED for (int i = 0; i < 4; i++) loadMatrix(a[i], piece<128>(stage, warp / 4 * 64 + i * 16 + lane % 16, kk * 2 + lane / 16));
    UNROLLED for (int j = 0; j < 2; j++)
      loadMatrix(b[j], piece<128>(stage + TileBytes, j * 64 + warp % 4 * 16 + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2));
    UNROLLED for (int i = 0; i < 4; i++)
      UNROLLED for (int j = 0; j < 4; j++) multiply<BRAIN>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }
}

// Shared memory is three stages of both operands: 96 KiB.
extern __shared__ __attribute__((aligned(128))) u8 stages[];

INLINE void clear(float sum[4][4][4]) {
  UNROLLED for (int i = 0; i < 4; i++)
    UNROLLED for (int j = 0; j < 4; j++)
      UNROLLED for (int v = 0; v < 4; v++) sum[i][j][v] = 0;
}

template <int FORM, bool TWO> struct Sums {
  INLINE void of(float sum[4][4][4], const u16 *x, const int *rows, const Tile &t, const void *w, const void *w2, int outs, int k) {
    u32 base = sharedAddress(stages);
    int steps = (k + Depth - 1) / Depth;
    Operand a = rowsOf<TWO>(x, rows, t, k);
    Operand b = outputsOf<TWO>((const u16 *)w, (const u16 *)w2, (i64)t.expert * outs, BLOCK_X * (TWO ? TileOuts / 2 : TileOuts), outs, k);
    clear(sum);
    UNROLLED for (int s = 0; s < Stages - 1; s++) {
      load(a, base + s * StageBytes, s * Depth, k), load(b, base + s * StageBytes + TileBytes, s * Depth, k);
      commitAsync();
    }
    int now = 0, free = Stages - 1, step = 0;
    ROLLED do {
      waitAsync<Stages - 2>();
      __syncthreads();
      int next = (step + Stages - 1) * Depth; // zeros behind the end
      load(a, base + free * StageBytes, next, k), load(b, base + free * StageBytes + TileBytes, next, k);
      commitAsync();
      productOf<FORM == Brain>(sum, base + now * StageBytes);
      free = now;
      now = now == Stages - 1 ? 0 : now + 1;
    } while (++step < steps);
  }
};

// SumsOfBlocks has the same stages; a tile of blocks is written when the one two steps before it was multiplied.
template <int FORM, bool TWO> struct SumsOfBlocks {
  INLINE void of(float sum[4][4][4], const u16 *x, const int *rows, const Tile &t, const void *w, const void *w2, int outs, int k) {
    u32 base = sharedAddress(stages);
    int steps = (k + Depth - 1) / Depth;
    Operand a = rowsOf<TWO>(x, rows, t, k);
    Blocks<FORM> b;
    blocksOf<FORM, TWO>(b, w, w2, (i64)t.expert * outs, BLOCK_X * (TWO ? TileOuts / 2 : TileOuts), outs, k);
    clear(sum);
    ROLLED for (int s = 0; s < Stages - 1; s++) {
      load(a, base + s * StageBytes, s * Depth, k);
      commitAsync();
      fetch(b, TWO && THREAD >= 128 ? w2 : w, s * Depth, k);
      stash(b, base + s * StageBytes + TileBytes, s * Depth);
    }
    int now = 0, free = Stages - 1, step = 0;
    ROLLED do {
      waitAsync<Stages - 2>();
      __syncthreads();
      int next = (step + Stages - 1) * Depth;
      load(a, base + free * StageBytes, next, k);
      commitAsync();
      fetch(b, TWO && THREAD >= 128 ? w2 : w, next, k);
      productOf<false>(sum, base + now * StageBytes);
      stash(b, base + free * StageBytes + TileBytes, next);
      free = now;
      now = now == Stages - 1 ? 0 : now + 1;
    } while (++step < steps);
  }
};
template <bool TWO> struct Sums<Eights, TWO> : SumsOfBlocks<Eights, TWO> {};
template <bool TWO> struct Sums<Fours, TWO> : SumsOfBlocks<Fours, TWO> {};
template <bool TWO> struct Sums<Codes, TWO> : SumsOfBlocks<Codes, TWO> {};

// listed is the tile of this block.
INLINE Tile listed(const int *tiles) {
  Tile t = {tiles[3 * BLOCK_Y], tiles[3 * BLOCK_Y + 1], tiles[3 * BLOCK_Y + 2]};
  return t;
}

// inRows leaves the sums of a tile in shared memory, where the stages were, in rows of Pitch values.
enum { Pitch = TileOuts + 4 };
INLINE const float *inRows(const float sum[4][4][4]) {
  float *all = (float *)stages;
  int lane = THREAD % 32, warp = THREAD / 32;
  waitAsync<0>();
  __syncthreads();
  UNROLLED for (int i = 0; i < 4; i++)
    UNROLLED for (int j = 0; j < 4; j++)
      UNROLLED for (int v = 0; v < 4; v++)
        all[(warp / 4 * 64 + i * 16 + lane / 4 + v / 2 * 8) * Pitch + j / 2 * 64 + warp % 4 * 16 + j % 2 * 8 + lane % 4 * 2 + v % 2] = sum[i][j][v];
  __syncthreads();
  return all;
}

// product writes rows of outs values each: of listed tiles, or of all rows in order.
template <int FORM> INLINE void product(float *dst, const u16 *x, const float *factors, const int *tiles, const void *w, int n,
                                          int outs, int k) {
  Tile t = {0, BLOCK_Y * TileRows, least(TileRows, n - BLOCK_Y * TileRows)};
  if (tiles) t = listed(tiles);
  if (t.count <= 0) return;
  float sum[4][4][4];
  Sums<FORM, false>::of(sum, x, 0, t, w, w, outs, k);
  const float *all = inRows(sum);
  int out = BLOCK_X * TileOuts + THREAD % TileOuts;
  if (out >= outs) return;
  ROLLED for (int r = THREAD / TileOuts; r < t.count; r += Threads / TileOuts) {
    i64 at = t.first + r;
    dst[at * outs + out] = all[r * Pitch + THREAD % TileOuts] * factors[at];
  }
}

// gated writes what is between gate and up on one side and down on the other, of rows that a list names.
template <int FORM> INLINE void gated(float *dst, const u16 *x, const float *factors, const int *rows, const int *tiles,
                                        const void *gate, const void *up, const float *gateBias, const float *upBias, int outs, int k,
                                        float limit, float alpha) {
  Tile t = listed(tiles);
  if (t.count <= 0) return;
  float sum[4][4][4];
  Sums<FORM, true>::of(sum, x, rows, t, gate, up, outs, k);
  const float *all = inRows(sum);
  int column = THREAD % (TileOuts / 2), out = BLOCK_X * (TileOuts / 2) + column;
  if (out >= outs) return;
  float moreG = gateBias ? gateBias[(i64)t.expert * outs + out] : 0, moreU = gateBias ? upBias[(i64)t.expert * outs + out] : 0;
  ROLLED for (int r = THREAD / (TileOuts / 2); r < t.count; r += Threads / (TileOuts / 2)) {
    i64 at = t.first + r;
    float factor = factors[rows[at]];
    float g = fused(all[r * Pitch + column], factor, moreG), u = fused(all[r * Pitch + TileOuts / 2 + column], factor, moreU);
    if (limit != 0) {
      g = smaller(g, limit), u = larger(-limit, smaller(u, limit));
      dst[at * outs + out] = (u + 1.0f) * g * inverse(1.0f + exponential(-alpha * g));
    } else {
      dst[at * outs + out] = silu(g) * u;
    }
  }
}

#define TWICE(threads) ROOMY(threads, 2)
#define PRODUCT(room, name, form)                                                                                                      \
  room(Threads) name(float *dst, const u16 *x, const float *factors, const int *tiles, const void *w, int n, int outs, int k) {        \
    product<form>(dst, x, factors, tiles, w, n, outs, k);                                                                              \
  }
#define GATED(room, name, form)                                                                                                        \
  room(Threads) name(float *dst, const u16 *x, const float *factors, const int *rows, const int *tiles, const void *gate, const void *up, \
                       const float *gateBias, const float *upBias, int outs, int k, float limit, float alpha) {                         \
    gated<form>(dst, x, factors, rows, tiles, gate, up, gateBias, upBias, outs, k, limit, alpha);                                      \
  }
PRODUCT(KERNEL, productF16, Half)
PRODUCT(KERNEL, productBF16, Brain)
PRODUCT(KERNEL, productQ8, Eights)
PRODUCT(KERNEL, productQ4K, Fours)
PRODUCT(TWICE, productE4M3, Codes)
GATED(KERNEL, gatedF16, Half)
GATED(KERNEL, gatedBF16, Brain)
GATED(KERNEL, gatedQ8, Eights)
GATED(KERNEL, gatedQ4K, Fours)
GATED(TWICE, gatedE4M3, Codes)
