// The mixers of a step: attention over pages, split in parts, and a step of Gated DeltaNet.
#include "fused.h"
#include "../../eager/kernels/states.h"

enum { HeadsMax = 8, HeadDimMax = 256, Tile = 32, TapsMax = 8 };

// Shape is that of a layer with attention. A row of projections is [q: heads x qWidth | k | v], with a gate behind
// each head of q where qWidth is 2d.
struct Shape {
  int heads, kvHeads, d, qWidth, store, layer, pageTokens, splits;
  i64 pageBytes, rowBytes;
};
INLINE int widthOf(const Shape &s) { return s.heads * s.qWidth + 2 * s.kvHeads * s.d; }

// place has a warp per row and head: norm, bias is done, and rotation; q goes back, k and v go to the pages.
KERNEL(128) place(float *rows, char *pool, const int *step, const float *angles, const float *qNorm, const float *kNorm, const Shape s,
                  int half, int neox, float eps) {
  __shared__ float memory[4][HeadDimMax];
  int row = BLOCK_X, lane = THREAD % 32, unit = BLOCK_Y * 4 + THREAD / 32, d = s.d;
  if (row >= step[0]) return;
  bool isQ = unit < s.heads, isK = !isQ && unit < s.heads + s.kvHeads, live = unit < s.heads + 2 * s.kvHeads;
  float *from = rows + (i64)row * widthOf(s) + (isQ ? unit * s.qWidth : s.heads * s.qWidth + (unit - s.heads) * d);
  float *mine = memory[THREAD / 32];
  const float *norm = isQ ? qNorm : kNorm;
  if (live) {
    float sum = 0;
    ROLLED for (int i = lane; i < d; i += 32) {
      float v = from[i];
      mine[i] = v, sum = fused(v, v, sum);
    }
    if ((isQ || isK) && norm) {
      float scale = inverseRoot(warpSum(sum) / (float)d + eps);
      ROLLED for (int i = lane; i < d; i += 32) mine[i] = mine[i] * scale * norm[i];
    }
  }
  __syncthreads();
  if (isQ || isK) {
    const float *turn = angles + (i64)row * 2 * half;
    ROLLED for (int j = lane; j < half; j += 32) {
      int a = neox ? j : 2 * j, b = neox ? j + half : 2 * j + 1;
      float cos = turn[j], sin = turn[half + j], u = mine[a], v = mine[b];
      mine[a] = u * cos - v * sin;
      mine[b] = u * sin + v * cos;
    }
  }
  __syncthreads();
  if (!live) return;
  if (isQ) {
    ROLLED for (int i = lane; i < d; i += 32) from[i] = mine[i];
    return;
  }
  const int *at = rowOf(step, row);
  int head = unit - s.heads - (isK ? 0 : s.kvHeads), blocks = (d + 31) / 32, width = s.kvHeads * d;
  char *to = position(pool, step + step[1] + at[2], at[1], s.layer, !isK, s.pageTokens, s.pageBytes, s.rowBytes);
  ROLLED for (int b = 0; b < blocks; b++) {
    int in = b * 32 + lane;
    bool there = in < d;
    float x = there ? mine[in] : 0;
    if (s.store == StoreF16) keep<StoreF16>(to, x, head * blocks + b, head * d + in, there, width);
    else if (s.store == StoreF32) keep<StoreF32>(to, x, head * blocks + b, head * d + in, there, width);
    else keep<StoreCodes>(to, x, head * blocks + b, head * d + in, there, width);
  }
}

// stage brings K or V of one head of the positions [base, base+count) to the tile, a warp a position at a time. All loads of a
// position are on their way before one is waited for. Behind the head's values are zeros.
template <int STORE, int EACH> INLINE void stage(float *tile, char *pool, const int *table, const Shape &s, int head, int kv, int base, int count) {
  int lane = THREAD % 32;
  ROLLED for (int j = THREAD / 32; j < count; j += THREADS / 32) {
    const char *at = position(pool, table, base + j, s.layer, kv, s.pageTokens, s.pageBytes, s.rowBytes);
    float v[EACH];
    UNROLLED for (int e = 0; e < EACH; e++) v[e] = lane + 32 * e < s.d ? stored<STORE>(at, head, lane + 32 * e, s.d, s.kvHeads * s.d) : 0;
    UNROLLED for (int e = 0; e < EACH; e++) tile[j * (EACH * 32 + 1) + lane + 32 * e] = v[e];
  }
}

// stageHalves is stage of float16: two values a load, and the loads of Ahead positions at once.
template <int EACH> INLINE void stageHalves(float *tile, char *pool, const int *table, const Shape &s, int head, int kv, int base, int count) {
  enum { Ahead = 4, Pairs = EACH / 2 };
  int lane = THREAD % 32, warps = THREADS / 32;
  ROLLED for (int j = THREAD / 32; j < count; j += Ahead * warps) {
    u32 two[Ahead][Pairs];
    UNROLLED for (int a = 0; a < Ahead; a++) {
      int pos = base + least(j + a * warps, count - 1);
      const u32 *at = (const u32 *)(position(pool, table, pos, s.layer, kv, s.pageTokens, s.pageBytes, s.rowBytes) + 2 * head * s.d);
      UNROLLED for (int e = 0; e < Pairs; e++) two[a][e] = 2 * (lane + 32 * e) < s.d ? at[lane + 32 * e] : 0;
    }
    UNROLLED for (int a = 0; a < Ahead; a++)
      if (j + a * warps < count) {
        float *to = tile + (j + a * warps) * (EACH * 32 + 1) + 2 * lane;
        UNROLLED for (int e = 0; e < Pairs; e++) to[64 * e] = fromF16((u16)two[a][e]), to[64 * e + 1] = fromF16((u16)(two[a][e] >> 16));
      }
  }
}
template <int EACH> INLINE void stageAny(float *tile, char *pool, const int *table, const Shape &s, int head, int kv, int base, int count) {
  if (s.store == StoreF16) stageHalves<EACH>(tile, pool, table, s, head, kv, base, count);
  else if (s.store == StoreF32) stage<StoreF32, EACH>(tile, pool, table, s, head, kv, base, count);
  else stage<StoreCodes, EACH>(tile, pool, table, s, head, kv, base, count);
}

// attend has a block per row, part of its positions, KV head and up to 8 of the heads that read it, one a warp.
// What a part found goes to found: [row][head][part]{d values, largest score, sum}. A lane scores a position of
// a tile, then has every 32nd value of the sum.
template <int EACH> INLINE void attend(float *found, const float *rows, char *pool, const int *step, const Shape &s, int window, float scale) {
  const int pitch = EACH * 32 + 1;
  __shared__ float tile[Tile * (EACH * 32 + 1)], queries[HeadsMax][EACH * 32];
  int row = BLOCK_X / s.splits, split = BLOCK_X % s.splits, group = s.heads / s.kvHeads, sets = (group + HeadsMax - 1) / HeadsMax;
  int kvHead = BLOCK_Y / sets, lane = THREAD % 32, warp = THREAD / 32, within = BLOCK_Y % sets * HeadsMax + warp;
  if (row >= step[0]) return;
  const int *at = rowOf(step, row), *table = step + step[1] + at[2];
  bool live = warp < HeadsMax && within < group;
  int head = kvHead * group + within, last = at[1], first = window > 0 ? most(0, last + 1 - window) : 0;
  int each = ((last + 1 - first + s.splits - 1) / s.splits + Tile - 1) / Tile * Tile;
  int from = first + split * each, to = least(last + 1, from + each);
  float *query = queries[warp % HeadsMax];
  if (live) {
    const float *q = rows + (i64)row * widthOf(s) + head * s.qWidth;
    UNROLLED for (int e = 0; e < EACH; e++) query[lane + 32 * e] = lane + 32 * e < s.d ? q[lane + 32 * e] * scale : 0;
  }
  float out[EACH], top = -infinity(), sum = 0;
  UNROLLED for (int e = 0; e < EACH; e++) out[e] = 0;
  ROLLED for (int base = from; base < to; base += Tile) {
    int count = least(Tile, to - base);
    __syncthreads();
    stageAny<EACH>(tile, pool, table, s, kvHead, 0, base, count);
    __syncthreads();
    float score = -infinity(), p = 0;
    if (live) {
      if (lane < count) {
        score = 0;
        ROLLED for (int i = 0; i < s.d; i += 8)
          UNROLLED for (int k = 0; k < 8; k++) score = fused(query[i + k], tile[lane * pitch + i + k], score);
      }
      float high = larger(top, warpMax(score)), shrink = exponential(top - high);
      p = exponential(score - high);
      top = high, sum = fused(sum, shrink, warpSum(p));
      UNROLLED for (int e = 0; e < EACH; e++) out[e] *= shrink;
    }
    __syncthreads();
    stageAny<EACH>(tile, pool, table, s, kvHead, 1, base, count);
    __syncthreads();
    if (live)
      ROLLED for (int j = 0; j < count; j++) {
        float by = shuffleFrom(p, j);
        UNROLLED for (int e = 0; e < EACH; e++)
          if (lane + 32 * e < s.d) out[e] = fused(by, tile[j * pitch + lane + 32 * e], out[e]);
      }
  }
  if (!live) return;
  float *result = found + (((i64)row * s.heads + head) * s.splits + split) * (s.d + 2);
  UNROLLED for (int e = 0; e < EACH; e++)
    if (lane + 32 * e < s.d) result[lane + 32 * e] = out[e];
  if (lane == 0) result[s.d] = top, result[s.d + 1] = sum;
}
#define ATTEND(each)                                                                                                          \
  ROOMY(256, 2) attend##each(float *found, const float *rows, char *pool, const int *step, const Shape s, int window, float scale) { \
    attend<each>(found, rows, pool, step, s, window, scale);                                                                  \
  }
ATTEND(2)
ATTEND(4)
ATTEND(8)

// merge has a block per row and head: the parts in their order, the sink, and the gate.
KERNEL(64) merge(float *dst, const float *found, const float *rows, const float *sinks, const int *step, const Shape s) {
  int row = BLOCK_X, head = BLOCK_Y, d = s.d;
  if (row >= step[0]) return;
  const float *part = found + ((i64)row * s.heads + head) * s.splits * (d + 2);
  float top = sinks ? sinks[head] : -infinity(), sum = 0;
  int p = 0;
  ROLLED do top = larger(top, part[p * (d + 2) + d]); // there is a part at least
  while (++p < s.splits);
  if (sinks) sum = exponential(sinks[head] - top);
  p = 0;
  ROLLED do sum = fused(part[p * (d + 2) + d + 1], exponential(part[p * (d + 2) + d] - top), sum);
  while (++p < s.splits);
  ROLLED for (int i = THREAD; i < d; i += 64) {
    float x = 0;
    p = 0;
    ROLLED do x = fused(part[p * (d + 2) + i], exponential(part[p * (d + 2) + d] - top), x);
    while (++p < s.splits);
    x *= inverse(sum);
    if (s.qWidth > d) x *= sigmoid(rows[(i64)row * widthOf(s) + head * s.qWidth + d + i]);
    dst[((i64)row * s.heads + head) * d + i] = x;
  }
}

// convolveSpan has a thread per channel and first row of a sequence, and takes the sequence's inputs to outputs in their
// place: what normed does where a sequence has one row. A row of projections is stride wide. The sum's leading zeros
// stand for taps that are not there.
KERNEL(128) convolveSpan(float *rows, float *conv, const float *w, const int *step, i64 slotFloats, int channels, int stride, int taps) {
  int row = BLOCK_X, channel = BLOCK_Y * 128 + THREAD, none = TapsMax - taps;
  if (row >= step[0] || channel >= channels) return;
  const int *at = rowOf(step, row);
  int count = at[4];
  if (count == 0) return;
  float *state = conv + (i64)at[3] * slotFloats + channel, *x = rows + (i64)row * stride + channel, old[TapsMax - 1], by[TapsMax];
  UNROLLED for (int i = 0; i < TapsMax; i++) {
    by[i] = i >= none ? w[channel * taps + i - none] : 0;
    if (i < TapsMax - 1) old[i] = i >= none ? state[(i64)(i - none) * channels] : 0;
  }
  ROLLED do {
    float in = *x, sum = 0;
    UNROLLED for (int i = 0; i < TapsMax - 1; i++) sum = fused(old[i], by[i], sum);
    *x = silu(fused(in, by[TapsMax - 1], sum));
    UNROLLED for (int i = 0; i < TapsMax - 2; i++) old[i] = old[i + 1];
    old[TapsMax - 2] = in;
    if (at[5] >= 0) {
      float *saved = conv + (i64)at[5] * slotFloats + channel;
      UNROLLED for (int i = 0; i < TapsMax - 1; i++)
        if (i >= none) saved[(i64)(i - none) * channels] = old[i];
    }
    at += RowWords, x += stride;
  } while (--count > 0);
  UNROLLED for (int i = 0; i < TapsMax - 1; i++)
    if (i >= none) state[(i64)(i - none) * channels] = old[i];
}

// recurrence has a block per row and V head, with four threads for each column of the state, each with a quarter of its
// rows in registers. Where rows of a sequence FOLLOW each other, the first one's block takes them one by one.
// A row of projections is [q k v, convolved | z | beta | alpha].
template <int D, bool FOLLOW> INLINE void recurrence(float *dst, const float *rows, const float *a, const float *bias, const float *norm, float *states,
                                        const int *step, i64 slotFloats, int kHeads, int vHeads, int tiled, int brain, float eps) {
  const int quarter = D / 4;
  __shared__ float q[D], k[D], reads[4][D], outs[4][D], scratch[3][32];
  int row = BLOCK_X, head = BLOCK_Y, j = THREAD % D, part = THREAD / D, kHead = tiled ? head % kHeads : head / (vHeads / kHeads);
  if (row >= step[0]) return;
  const int *at = rowOf(step, row);
  int count = FOLLOW ? at[4] : 1, channels = (2 * kHeads + vHeads) * D, stride = channels + vHeads * D + 2 * vHeads;
  if (count == 0) return;
  const float *in = rows + (i64)row * stride;
  i64 own = ((i64)head * D + part * quarter) * D + j, state = stateIn(at[3], slotFloats, brain) + own;
  float m[quarter];
  keptAt<quarter, D>(m, states, state, brain);
  ROLLED do {
    const float *z = in + channels, *beta = z + vHeads * D;
    float qj = part == 0 ? in[kHead * D + j] : 0, kj = part == 0 ? in[(kHeads + kHead) * D + j] : 0;
    float qScale = inverseRoot(blockSum(qj * qj, scratch[0]) + eps) * inverseRoot((float)D);
    float kScale = inverseRoot(blockSum(kj * kj, scratch[1]) + eps);
    if (part == 0) q[j] = qj * qScale, k[j] = kj * kScale;
    float x = beta[vHeads + head] + bias[head];
    float gate = exponential(a[head] * (x <= 20.0f ? logOnePlus(exponential(x)) : x)), by = sigmoid(beta[head]);
    float read = 0, out = 0;
    UNROLLED for (int i = 0; i < quarter; i++) m[i] *= gate;
    __syncthreads();
    UNROLLED for (int i = 0; i < quarter; i++) read = fused(k[part * quarter + i], m[i], read);
    reads[part][j] = read;
    __syncthreads();
    float delta = by * (in[(2 * kHeads + head) * D + j] - (((reads[0][j] + reads[1][j]) + reads[2][j]) + reads[3][j]));
    UNROLLED for (int i = 0; i < quarter; i++) {
      m[i] = fused(k[part * quarter + i], delta, m[i]);
      out = fused(q[part * quarter + i], m[i], out);
    }
    outs[part][j] = out;
    if (FOLLOW && at[5] >= 0) keepAt<quarter, D>(m, states, stateIn(at[5], slotFloats, brain) + own, brain);
    __syncthreads();
    out = part == 0 ? ((outs[0][j] + outs[1][j]) + outs[2][j]) + outs[3][j] : 0;
    float scale = inverseRoot(blockSum(out * out, scratch[2]) * inverse((float)D) + eps);
    if (part == 0) dst[((i64)row * vHeads + head) * D + j] = out * scale * norm[j] * silu(z[head * D + j]);
    at += RowWords, in += stride, row++;
  } while (FOLLOW && --count > 0);
  keepAt<quarter, D>(m, states, state, brain);
}
#define RECUR(name, dim, follow)                                                                                              \
  KERNEL(4 * dim) name##dim(float *dst, const float *rows, const float *a, const float *bias, const float *norm, float *states, \
                            const int *step, i64 slotFloats, int kHeads, int vHeads, int tiled, int brain, float eps) {       \
    recurrence<dim, follow>(dst, rows, a, bias, norm, states, step, slotFloats, kHeads, vHeads, tiled, brain, eps);           \
  }
RECUR(recur, 64, false)
RECUR(recur, 128, false)
RECUR(recurSpan, 64, true)
RECUR(recurSpan, 128, true)
