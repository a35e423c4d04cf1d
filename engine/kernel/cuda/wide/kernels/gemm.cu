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

template <bool BRAIN, bool TWO>
INLINE void sums(float sum[4][4][4], const u16 *x, const int *rows, const Tile &t, const u16 *w, const u16 *w2, int outs, int k) {
  u32 base = sharedAddress(stages);
  int steps = (k + Depth - 1) / Depth;
  Operand a = rowsOf<TWO>(x, rows, t, k);
  Operand b = outputsOf<TWO>(w, w2, (i64)t.expert * outs, BLOCK_X * (TWO ? TileOuts / 2 : TileOuts), outs, k);
  UNROLLED for (int i = 0; i < 4; i++)
    UNROLLED for (int j = 0; j < 4; j++)
      UNROLLED for (int v = 0; v < 4; v++) sum[i][j][v] = 0;
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
    productOf<BRAIN>(sum, base + now * StageBytes);
    free = now;
    now = now == Stages - 1 ? 0 : now + 1;
  } while (++step < steps);
}

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
template <bool BRAIN> INLINE void product(float *dst, const u16 *x, const float *factors, const int *tiles, const u16 *w, int n,
                                          int outs, int k) {
  Tile t = {0, BLOCK_Y * TileRows, least(TileRows, n - BLOCK_Y * TileRows)};
  if (tiles) t = listed(tiles);
  if (t.count <= 0) return;
  float sum[4][4][4];
  sums<BRAIN, false>(sum, x, 0, t, w, w, outs, k);
  const float *all = inRows(sum);
  int out = BLOCK_X * TileOuts + THREAD % TileOuts;
  if (out >= outs) return;
  ROLLED for (int r = THREAD / TileOuts; r < t.count; r += Threads / TileOuts) {
    i64 at = t.first + r;
    dst[at * outs + out] = all[r * Pitch + THREAD % TileOuts] * factors[at];
  }
}

// gated writes what is between gate and up on one side and down on the other, of rows that a list names.
template <bool BRAIN> INLINE void gated(float *dst, const u16 *x, const float *factors, const int *rows, const int *tiles,
                                        const u16 *gate, const u16 *up, const float *gateBias, const float *upBias, int outs, int k,
                                        float limit, float alpha) {
  Tile t = listed(tiles);
  if (t.count <= 0) return;
  float sum[4][4][4];
  sums<BRAIN, true>(sum, x, rows, t, gate, up, outs, k);
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

#define PRODUCT(name, brain)                                                                                                          \
  KERNEL(Threads) name(float *dst, const u16 *x, const float *factors, const int *tiles, const u16 *w, int n, int outs, int k) {        \
    product<brain>(dst, x, factors, tiles, w, n, outs, k);                                                                              \
  }
#define GATED(name, brain)                                                                                                            \
  KERNEL(Threads) name(float *dst, const u16 *x, const float *factors, const int *rows, const int *tiles, const u16 *gate, const u16 *up, \
                       const float *gateBias, const float *upBias, int outs, int k, float limit, float alpha) {                         \
    gated<brain>(dst, x, factors, rows, tiles, gate, up, gateBias, upBias, outs, k, limit, alpha);                                      \
  }
PRODUCT(productF16, false)
PRODUCT(productBF16, true)
GATED(gatedF16, false)
GATED(gatedBF16, true)
