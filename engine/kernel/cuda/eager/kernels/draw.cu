// Draws of tokens, as package sample defines them: one block per row. Weights are float64, sums have a fixed order.
#include "common.h"

enum { Threads = 256 };

// Row is how one row draws. The host writes it, with lists of numbers behind all rows: At is where one begins.
struct Row {
  double uniform, scale; // scale is one over the temperature
  float topP, minP, presence, frequency, repetition, inverse; // inverse is one over the repetition penalty, which is 1 for none
  int topK, greedy, few, unfinished;
  int hiddenAt, hidden, stopsAt, stops, promptAt, prompt, seenAt, seen; // seen are {id, times, in the prompt}
  int held, trigger, allowedAt, allowed, endingAt, ending;              // words of 32 ids; ending is -1 without
  int own, newest, drafted, index; // the row of its own token; of those the sampler has not seen; where the draw goes, or -1
};

struct Memory {
  double sums[Threads];
  int counts[Threads];
  int found;
};

INLINE double exact(float x) { double d; asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(x)); return d; }
INLINE double fused64(double a, double b, double c) { double r; asm("fma.rn.f64 %0, %1, %2, %3;" : "=d"(r) : "d"(a), "d"(b), "d"(c)); return r; }
INLINE i64 bits64(double x) { i64 r; asm("mov.b64 %0, %1;" : "=l"(r) : "d"(x)); return r; }
INLINE double fromBits64(i64 x) { double r; asm("mov.b64 %0, %1;" : "=d"(r) : "l"(x)); return r; }
INLINE int bits32(float x) { int r; asm("mov.b32 %0, %1;" : "=r"(r) : "f"(x)); return r; }

// weightOf is e^x of x <= 0, in the operations of package sample.
INLINE double weightOf(double x) {
  if (!(x >= -708.0)) return 0;
  double rounded = fused64(x, 1.4426950408889634, 6755399441055744.0);
  double r = fused64(rounded - 6755399441055744.0, -0.6931471805599453, x), square = r * r;
  double even = fused64(1. / 3628800, square, 1. / 40320), odd = fused64(1. / 362880, square, 1. / 5040);
  even = fused64(even, square, 1. / 720), odd = fused64(odd, square, 1. / 120);
  even = fused64(even, square, 1. / 24), odd = fused64(odd, square, 1. / 6);
  even = fused64(even, square, 1. / 2), odd = fused64(odd, square, 1);
  double p = fused64(odd, r, fused64(even, square, 1));
  return fromBits64(bits64(p) + (bits64(rounded) << 52));
}

// order numbers floats so that larger ones have larger numbers; value goes back.
INLINE int order(float x) { int b = bits32(x + 0.0f); return b < 0 ? -(b & 0x7fffffff) : b; }
INLINE float value(int i) { return fromBits(i < 0 ? (u32)(-i) | 0x80000000u : (u32)i); }

INLINE double sumAll(Memory &m, double x) {
  __syncthreads();
  m.sums[THREAD] = x;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s) m.sums[THREAD] += m.sums[THREAD + s];
  }
  __syncthreads();
  return m.sums[0];
}
INLINE int countAll(Memory &m, int x) {
  __syncthreads();
  m.counts[THREAD] = x;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s) m.counts[THREAD] += m.counts[THREAD + s];
  }
  __syncthreads();
  return m.counts[0];
}
// leastAll is the lowest id that a thread found, negative ones apart.
INLINE int leastAll(Memory &m, int x) {
  __syncthreads();
  m.counts[THREAD] = x < 0 ? 0x7fffffff : x;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s) m.counts[THREAD] = least(m.counts[THREAD], m.counts[THREAD + s]);
  }
  __syncthreads();
  return m.counts[0];
}
// mostAll is the largest number.
INLINE int mostAll(Memory &m, int x) {
  __syncthreads();
  m.counts[THREAD] = x;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s) m.counts[THREAD] = most(m.counts[THREAD], m.counts[THREAD + s]);
  }
  __syncthreads();
  return m.counts[0];
}

INLINE bool listed(const int *list, int n, int id) {
  int low = 0, high = n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (list[middle] < id) low = middle + 1;
    else high = middle;
  }
  return low < n && list[low] == id;
}
INLINE void hide(float *x, int vocab, const int *list, int n) {
  ROLLED for (int i = THREAD; i < n; i += Threads)
    if (list[i] >= 0 && list[i] < vocab) x[list[i]] = -infinity();
}
// repeated divides what is positive, correctly rounded, since the inverse is.
INLINE void repeated(float &x, const Row &r) {
  float quotient = x * r.inverse;
  if (x <= 0) x *= r.repetition;
  else if (x < infinity()) x = fused(fused(-quotient, r.repetition, x), r.inverse, quotient);
}
INLINE float penalty(const Row &r, int times) {
  float f;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(f) : "f"((float)times), "f"(r.frequency));
  return f + r.presence;
}

// adjust applies penalties and hides. fresh are tokens that the list of seen ones lacks.
INLINE void adjust(const Row &r, const int *lists, float *x, int vocab, const int *fresh) {
  const int *prompt = lists + r.promptAt, *seen = lists + r.seenAt;
  ROLLED for (int i = THREAD; i < r.prompt; i += Threads)
    if (prompt[i] >= 0 && prompt[i] < vocab) repeated(x[prompt[i]], r);
  __syncthreads();
  ROLLED for (int i = THREAD; i < r.seen; i += Threads) {
    int id = seen[3 * i], times = seen[3 * i + 1];
    if (id < 0 || id >= vocab) continue;
    ROLLED for (int k = 0; k < r.drafted; k++) times += fresh[k] == id;
    float v = x[id];
    if (!seen[3 * i + 2]) repeated(v, r);
    x[id] = v - penalty(r, times);
  }
  ROLLED for (int k = THREAD; k < r.drafted; k += Threads) { // those that were never seen, each once
    int id = fresh[k], times = 1;
    bool first = id >= 0 && id < vocab;
    ROLLED for (int i = 0; i < r.seen; i++) first = first && seen[3 * i] != id;
    ROLLED for (int j = 0; j < k; j++) first = first && fresh[j] != id;
    if (!first) continue;
    ROLLED for (int j = k + 1; j < r.drafted; j++) times += fresh[j] == id;
    float v = x[id];
    if (!listed(prompt, r.prompt, id)) repeated(v, r);
    x[id] = v - penalty(r, times);
  }
  __syncthreads();
  hide(x, vocab, lists + r.hiddenAt, r.hidden);
  __syncthreads();
}

// Cut is the least likely token that is kept: a larger logit is before it, and of equal ones a lower id.
struct Cut { int logit, id; };
INLINE bool kept(const Cut &c, int o, int id) { return o > c.logit || (o == c.logit && id <= c.id); }

// nth is the id of the n-th token, counted from 1, among those with a logit.
INLINE int nth(Memory &m, const float *x, int vocab, int logit, int n) {
  int each = (vocab + Threads - 1) / Threads, from = THREAD * each, to = least(vocab, from + each), count = 0;
  ROLLED for (int i = from; i < to; i++) count += order(x[i]) == logit && x[i] == x[i];
  __syncthreads();
  m.counts[THREAD] = count;
  __syncthreads();
  if (THREAD == 0) {
    int t = 0;
    while (t < Threads - 1 && n > m.counts[t]) n -= m.counts[t++];
    int i = t * each, end = least(vocab, i + each);
    ROLLED for (; i < end; i++)
      if (order(x[i]) == logit && x[i] == x[i] && --n == 0) break;
    m.found = i;
  }
  __syncthreads();
  return m.found;
}

// draw is the token of a row whose logits are adjusted.
INLINE int drawOne(const Row &r, Memory &m, const int *lists, const float *x, int vocab) {
  const int none = -0x7f800000; // the number of -Inf
  int high = none;
  ROLLED for (int i = THREAD; i < vocab; i += Threads)
    if (x[i] == x[i]) high = most(high, order(x[i]));
  high = mostAll(m, high);
  if (high == none) { // nothing is possible: the lowest id that is not hidden
    int id = 0;
    ROLLED for (int i = 0; i < r.hidden; i++) {
      int h = lists[r.hiddenAt + i];
      if (h == id) id++;
      else if (h > id) break;
    }
    return id < vocab ? id : 0;
  }
  if (r.greedy || high == 0x7f800000) {
    int at = -1;
    ROLLED for (int i = THREAD; i < vocab && at < 0; i += Threads)
      if (x[i] == x[i] && order(x[i]) == high) at = i;
    return leastAll(m, at);
  }
  double top = exact(value(high)), scale = r.scale, bar = exact(r.minP);
  Cut cut = {none + 1, 0x7fffffff};
  if (r.topK > 0 && r.topK < vocab) {
    int low = none + 1, up = high + 1; // as many as topK at low or above, fewer at up
    int all = 0;
    ROLLED for (int i = THREAD; i < vocab; i += Threads) all += x[i] == x[i] && order(x[i]) >= low;
    if (countAll(m, all) > r.topK) {
      int over = 0;
      while (up - (i64)low > 1) {
        int middle = (int)(((i64)low + up) >> 1), count = 0;
        ROLLED for (int i = THREAD; i < vocab; i += Threads) count += x[i] == x[i] && order(x[i]) >= middle;
        count = countAll(m, count);
        if (count >= r.topK) low = middle;
        else up = middle, over = count;
      }
      cut.logit = low;
      cut.id = nth(m, x, vocab, low, r.topK - over);
    }
  }
  if (r.topP < 1) {
    double mass = 0;
    ROLLED for (int i = THREAD; i < vocab; i += Threads)
      if (x[i] == x[i] && kept(cut, order(x[i]), i)) mass += weightOf((exact(x[i]) - top) * scale);
    mass = sumAll(m, mass);
    double want = exact(r.topP) * mass, over = 0;
    int low = cut.logit, up = high + 1;
    while (up - (i64)low > 1) {
      int middle = (int)(((i64)low + up) >> 1);
      double sum = 0;
      ROLLED for (int i = THREAD; i < vocab; i += Threads)
        if (x[i] == x[i] && order(x[i]) >= middle) sum += weightOf((exact(x[i]) - top) * scale);
      sum = sumAll(m, sum);
      if (sum >= want) low = middle;
      else up = middle, over = sum;
    }
    double each = weightOf((exact(value(low)) - top) * scale);
    int ties = 0, n = 1;
    ROLLED for (int i = THREAD; i < vocab; i += Threads)
      ties += x[i] == x[i] && order(x[i]) == low && (low > cut.logit || i <= cut.id);
    ties = countAll(m, ties);
    while (n < ties && over + each * n < want) n++;
    if (ties > 0) cut.id = nth(m, x, vocab, low, n);
    cut.logit = low;
  }
  // What is kept, by id, in a run of ids for each thread.
  int run = (vocab + Threads - 1) / Threads, from = THREAD * run, to = least(vocab, from + run);
  double mass = 0;
  ROLLED for (int i = from; i < to; i++) {
    double w = x[i] == x[i] && kept(cut, order(x[i]), i) ? weightOf((exact(x[i]) - top) * scale) : 0;
    mass += w >= bar ? w : 0;
  }
  double total = sumAll(m, mass), target = r.uniform * total;
  if (!r.few) {
    __syncthreads();
    m.sums[THREAD] = mass;
    __syncthreads();
    if (THREAD == 0) {
      int t = 0, last = -1;
      double at = 0;
      while (t < Threads - 1 && at + m.sums[t] <= target) at += m.sums[t++];
      ROLLED for (int i = t * run; i < vocab; i++) {
        double w = x[i] == x[i] && kept(cut, order(x[i]), i) ? weightOf((exact(x[i]) - top) * scale) : 0;
        if (w < bar || w == 0) continue;
        last = i, at += w;
        if (at > target) break;
      }
      m.found = last;
    }
    __syncthreads();
    return m.found; // the likeliest is always kept
  }
  // One after the other, in order of likelihood: what follows the one before.
  Cut before = {high + 1, 0};
  int firstID = -1;
  while (true) {
    int o = none;
    ROLLED for (int i = THREAD; i < vocab; i += Threads) {
      int own = order(x[i]);
      if (x[i] == x[i] && kept(cut, own, i) && !kept(before, own, i)) o = most(o, own);
    }
    o = mostAll(m, o);
    if (o == none) return firstID; // rounding left a little of the target over
    int at = -1;
    ROLLED for (int i = THREAD; i < vocab && at < 0; i += Threads)
      if (x[i] == x[i] && order(x[i]) == o && (o < before.logit || i > before.id)) at = i;
    at = leastAll(m, at);
    double w = weightOf((exact(value(o)) - top) * scale);
    if (firstID < 0) firstID = at;
    else if (w < bar) return firstID;
    target -= w;
    if (target < 0) return at;
    before.logit = o, before.id = at;
  }
}

// draw has a block per row of logits, which it changes. ids are the tokens of the step's rows.
KERNEL(256) draw(int *tokens, int *frees, float *logits, const Row *rows, const int *lists, const int *ids, int vocab) {
  __shared__ Memory m;
  const Row &r = rows[BLOCK_X];
  if (r.index < 0) return; // the host draws
  float *x = logits + (i64)BLOCK_X * vocab;
  adjust(r, lists, x, vocab, ids + r.newest);
  bool held = r.held && (r.trigger < 0 || r.trigger == ids[r.own]);
  const int *allowed = lists + r.allowedAt;
  int words = r.allowed, free = -1, token = -1;
  // The first of two draws is that of a row that nothing holds.
  ROLLED for (int pass = held && r.ending >= 0 ? 0 : 1; pass < 2; pass++) {
    if (pass == 1) {
      __syncthreads();
      if (held)
        ROLLED for (int i = THREAD; i < vocab; i += Threads)
          if (i / 32 >= words || !((u32)allowed[i / 32] >> (i % 32) & 1)) x[i] = -infinity();
      if (r.unfinished) hide(x, vocab, lists + r.stopsAt, r.stops);
      __syncthreads();
    }
    token = drawOne(r, m, lists, x, vocab);
    if (pass == 0) {
      free = token;
      ROLLED for (int i = 0; i < r.stops; i++)
        if (lists[r.stopsAt + i] == free) allowed = lists + r.endingAt, words = r.ending;
    }
  }
  if (THREAD == 0) tokens[r.index] = token, frees[r.index] = free;
}

struct Drafted { int token; float probability; };

// likeliest has a block per row of logits, which it changes: the likeliest token but for those of hidden, whose first
// word is their number. Rows that the step does not have, where there is one, are left alone.
KERNEL(256) likeliest(Drafted *tokens, float *logits, const int *hidden, const int *step, int vocab) {
  __shared__ Memory m;
  const int none = -0x7f800000; // the number of -Inf
  if (step && BLOCK_X >= step[0]) return;
  float *x = logits + (i64)BLOCK_X * vocab;
  hide(x, vocab, hidden + 1, hidden[0]);
  __syncthreads();
  int high = none, at = -1;
  ROLLED for (int i = THREAD; i < vocab; i += Threads)
    if (x[i] == x[i]) high = most(high, order(x[i]));
  high = mostAll(m, high);
  ROLLED for (int i = THREAD; i < vocab && at < 0; i += Threads)
    if (x[i] == x[i] && order(x[i]) == high) at = i;
  at = leastAll(m, at);
  double top = exact(value(high)), sum = 0;
  ROLLED for (int i = THREAD; i < vocab; i += Threads)
    if (x[i] == x[i]) sum += weightOf(exact(x[i]) - top);
  float p = inverse((float)sumAll(m, sum));
  if (THREAD != 0) return;
  Drafted d = {high == none ? 0 : at, high == none ? 0.0f : high == 0x7f800000 ? 1.0f : p};
  tokens[BLOCK_X] = d;
}

// resolve has a thread per row: tokens below 0 stand for what was drawn last.
KERNEL(256) resolve(int *ids, const int *drawn, int n) {
  int i = BLOCK_X * 256 + THREAD;
  if (i < n && ids[i] < 0) ids[i] = drawn[-1 - ids[i]];
}
