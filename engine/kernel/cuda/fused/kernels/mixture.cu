// A mixture of experts for a step: the pairs of row and expert, grouped so that an expert's matrices are read once. The
// shared expert comes last, with all rows; its pairs are numbered from sharedAt on.
#include "fused.h"

enum { ExpertsMax = 1024, Warps = 8, Outs = 2 };

// Work is what an expert has to do: its number, -1 for the shared one, and its pairs in the list.
struct Work { int expert, from, count; };

// group is one block. ids are the experts of each row, top each.
KERNEL(256) group(int *works, int *pairs, const int *ids, const int *step, int experts, int top, int shared, int sharedAt) {
  __shared__ int counts[ExpertsMax];
  int n = step[0], total = n * top;
  ROLLED for (int e = THREAD; e < experts; e += 256) {
    int count = 0, p = 0;
    ROLLED do count += ids[p] == e; // there is a pair at least
    while (++p < total);
    counts[e] = count;
  }
  __syncthreads();
  Work *list = (Work *)(works + 1);
  ROLLED for (int e = THREAD; e < experts; e += 256) {
    if (counts[e] == 0) continue;
    int place = 0, from = 0;
    ROLLED for (int before = 0; before < e; before++) place += counts[before] > 0, from += counts[before];
    list[place] = Work{e, from, counts[e]};
    int p = 0;
    ROLLED do
      if (ids[p] == e) pairs[from++] = p;
    while (++p < total);
  }
  ROLLED for (int row = THREAD; shared && row < n; row += 256) pairs[total + row] = sharedAt + row;
  if (THREAD != 0) return;
  int used = 0, e = 0;
  ROLLED do used += counts[e] > 0;
  while (++e < experts);
  if (shared) list[used] = Work{-1, total, n};
  works[0] = used + shared;
}

// Stack is gate and up, or down, of all experts and of the shared one.
struct Stack {
  const void *a, *b, *sharedA, *sharedB;
  int typeA, typeB, sharedTypeA, sharedTypeB, inner, sharedInner, top, sharedAt, hidden;
};

// expertUp has a block per expert and 16 values between gate and up on one side and down on the other.
template <int ROWS> INLINE void expertUp(float *between, const float *h, const int *works, const int *pairs, const Stack &s) {
  if (BLOCK_Y >= works[0]) return;
  Work work = ((const Work *)(works + 1))[BLOCK_Y];
  bool own = work.expert >= 0;
  int inner = own ? s.inner : s.sharedInner, widest = most(s.inner, s.sharedInner), lane = THREAD % 32;
  int out = (BLOCK_X * Warps + THREAD / 32) * Outs;
  if (out >= inner) return;
  i64 base = own ? (i64)work.expert * inner * s.hidden : 0;
  ROLLED for (int at = 0; at < work.count; at += ROWS) {
    const float *rows[ROWS];
    UNROLLED for (int r = 0; r < ROWS; r++) {
      int p = pairs[work.from + least(at + r, work.count - 1)];
      rows[r] = h + (i64)(p < s.sharedAt ? p / s.top : p - s.sharedAt) * s.hidden;
    }
    float g = product<Outs, ROWS>(own ? s.typeA : s.sharedTypeA, own ? s.a : s.sharedA, base, out, inner, rows, s.hidden);
    float u = product<Outs, ROWS>(own ? s.typeB : s.sharedTypeB, own ? s.b : s.sharedB, base, out, inner, rows, s.hidden);
    int mine = out + lane / ROWS, pair = at + lane % ROWS;
    if (lane < Outs * ROWS && mine < inner && pair < work.count) between[(i64)pairs[work.from + pair] * widest + mine] = silu(g) * u;
  }
}

// expertDown has a block per expert and 16 values of what its pairs give.
template <int ROWS> INLINE void expertDown(float *given, const float *between, const int *works, const int *pairs, const Stack &s) {
  if (BLOCK_Y >= works[0]) return;
  Work work = ((const Work *)(works + 1))[BLOCK_Y];
  bool own = work.expert >= 0;
  int inner = own ? s.inner : s.sharedInner, widest = most(s.inner, s.sharedInner), lane = THREAD % 32;
  int out = (BLOCK_X * Warps + THREAD / 32) * Outs;
  if (out >= s.hidden) return;
  i64 base = own ? (i64)work.expert * inner * s.hidden : 0;
  ROLLED for (int at = 0; at < work.count; at += ROWS) {
    const float *rows[ROWS];
    UNROLLED for (int r = 0; r < ROWS; r++) rows[r] = between + (i64)pairs[work.from + least(at + r, work.count - 1)] * widest;
    float y = product<Outs, ROWS>(own ? s.typeA : s.sharedTypeA, own ? s.a : s.sharedA, base, out, s.hidden, rows, inner);
    int mine = out + lane / ROWS, pair = at + lane % ROWS;
    if (lane < Outs * ROWS && mine < s.hidden && pair < work.count) given[(i64)pairs[work.from + pair] * s.hidden + mine] = y;
  }
}
#define EXPERTS(rows, blocks)                                                                                                   \
  ROOMY(256, blocks) expertUp##rows(float *between, const float *h, const int *works, const int *pairs, const Stack s) {       \
    expertUp<rows>(between, h, works, pairs, s);                                                                        \
  }                                                                                                                     \
  ROOMY(256, blocks) expertDown##rows(float *given, const float *between, const int *works, const int *pairs, const Stack s) { \
    expertDown<rows>(given, between, works, pairs, s);                                                                  \
  }
EXPERTS(1, 3)
EXPERTS(4, 2)

// sumExperts adds what a row's experts gave, best first, and the shared one's with the gate that the row has, or all of it.
KERNEL(256) sumExperts(float *x, const float *given, const float *weights, const float *gates, const int *step, int top, int shared,
                    int sharedAt, int hidden) {
  int row = BLOCK_X, i = BLOCK_Y * 256 + THREAD;
  if (row >= step[0] || i >= hidden) return;
  float sum = 0;
  int k = 0;
  ROLLED do sum = fused(weights[row * top + k], given[((i64)row * top + k) * hidden + i], sum);
  while (++k < top);
  if (shared) sum = fused(gates ? sigmoid(gates[row]) : 1.0f, given[((i64)sharedAt + row) * hidden + i], sum);
  x[(i64)row * hidden + i] += sum;
}
