// The rows of experts: which go to which, in tiles of one expert each, and their sum.
#include "wide.h"

enum { TileRows = 128, ExpertsMax = 1024 };

INLINE int warpSumInt(int x) {
  UNROLLED for (u32 m = 16; m > 0; m >>= 1) x += shuffleXorInt(x, m);
  return x;
}

// sortPairs has a block per expert. A pair is a row and one of its experts; pairs of lower experts come before, and
// those of one expert in order. places are where pairs go, rows the row of each place, firsts where experts begin.
KERNEL(128) sortPairs(int *places, int *rows, int *firsts, const int *ids, int pairs, int top) {
  __shared__ int lower[4], equal[4];
  int lane = THREAD % 32, warp = THREAD / 32, expert = BLOCK_X;
  int share = (pairs + 127) / 128 * 32, from = warp * share, to = least(pairs, from + share);
  int below = 0, same = 0;
  ROLLED for (int i = from + lane; i < to; i += 32) below += ids[i] < expert, same += ids[i] == expert;
  below = warpSumInt(below), same = warpSumInt(same);
  if (lane == 0) lower[warp] = below, equal[warp] = same;
  __syncthreads();
  int at = 0;
  UNROLLED for (int w = 0; w < 4; w++) at += lower[w] + (w < warp ? equal[w] : 0);
  if (THREAD == 0) firsts[expert] = at;
  ROLLED for (int base = from; base < to; base += 32) {
    int i = base + lane;
    bool hit = i < to && ids[i] == expert;
    u32 hits, before, count, rank;
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %1, 0;\nvote.sync.ballot.b32 %0, p, 0xffffffff;\n}" : "=r"(hits) : "r"((int)hit));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
    asm("popc.b32 %0, %1;" : "=r"(count) : "r"(hits));
    asm("popc.b32 %0, %1;" : "=r"(rank) : "r"(hits & before));
    if (hit) places[i] = at + (int)rank, rows[at + (int)rank] = i / top;
    at += (int)count;
  }
}

// listTiles is one block with a thread per expert: tiles are {expert, first place, places}, as many as were reserved.
KERNEL(1024) listTiles(int *tiles, const int *firsts, int experts, int pairs, int reserved) {
  __shared__ int counts[ExpertsMax];
  int e = THREAD, first = 0, places = 0, at = 0, all = 0;
  if (e < experts) {
    first = firsts[e], places = (e + 1 < experts ? firsts[e + 1] : pairs) - first;
    counts[e] = (places + TileRows - 1) / TileRows;
  }
  __syncthreads();
  ROLLED for (int i = 0; i < experts; i++) at += i < e ? counts[i] : 0, all += counts[i];
  if (e < experts)
    ROLLED for (int done = 0; done < places; done += TileRows, at++)
      tiles[3 * at] = e, tiles[3 * at + 1] = first + done, tiles[3 * at + 2] = least(TileRows, places - done);
  ROLLED for (int i = all + THREAD; i < reserved; i += THREADS) tiles[3 * i] = tiles[3 * i + 1] = tiles[3 * i + 2] = 0;
}

// combine has a thread per value, and takes the row's experts best first.
KERNEL(256) combine(float *dst, const float *y, const int *places, const int *ids, const float *weights, const float *bias, int n, int top,
                    int d) {
  u32 i = (u32)BLOCK_X * 256 + THREAD;
  if (i >= (u32)n * d) return;
  int row = i / (u32)d, j = i % (u32)d;
  float sum = 0;
  ROLLED for (int k = 0; k < top; k++) {
    int pair = row * top + k;
    float v = y[(i64)places[pair] * d + j];
    if (bias) v += bias[(i64)ids[pair] * d + j];
    sum = fused(weights[pair], v, sum);
  }
  dst[i] = sum;
}
