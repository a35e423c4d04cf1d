// Draws of tokens, as package sample defines them. Weights are float64, sums have a fixed order, which the vocabulary alone decides.
#include "draw.h"

// A row of logits is slices of 2,048, of which each thread has eight that follow each other. A launch of draw brings each
// row one phase on: blocks leave 16 sums of each slice, and the last block of a row goes on from all of them.
enum { Each = 8, Slice = Threads * Each, Sums = 16, FewMax = 1024 };

// Row is how one row draws. The host writes it, with lists of numbers behind all rows: At is where one begins.
struct Row {
  double uniform, scale; // scale is one over the temperature
  float topP, minP, presence, frequency, repetition, inverse; // inverse is one over the repetition penalty, which is 1 for none
  int topK, greedy, few, unfinished;
  int hiddenAt, hidden, stopsAt, stops, promptAt, prompt, seenAt, seen; // seen are {id, times, in the prompt}
  int held, trigger, allowedAt, allowed, endingAt, ending;              // words of 32 ids; ending is -1 without
  int own, newest, drafted, index; // the row of its own token; of those the sampler has not seen; where the draw goes, or -1
};

INLINE bool listed(const int *list, int n, int id) {
  int low = 0, high = n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (list[middle] < id) low = middle + 1;
    else high = middle;
  }
  return low < n && list[low] == id;
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
INLINE void adjust(Memory &m, const Row &r, const int *lists, float *x, int vocab, const int *fresh) {
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
  ROLLED for (int k = 0; k < r.drafted; k++) { // those that were never seen, each once
    int id = fresh[k], times = 1, known = 0;
    ROLLED for (int i = THREAD; i < r.seen; i += Threads) known |= seen[3 * i] == id;
    known = mostAll(m, known);
    if (THREAD != 0 || known || id < 0 || id >= vocab) continue;
    ROLLED for (int j = 0; j < k; j++) known |= fresh[j] == id;
    if (known) continue;
    ROLLED for (int j = k + 1; j < r.drafted; j++) times += fresh[j] == id;
    float v = x[id];
    if (!listed(prompt, r.prompt, id)) repeated(v, r);
    x[id] = v - penalty(r, times);
  }
  __syncthreads();
  hide(x, vocab, lists + r.hiddenAt, r.hidden);
}

// What comes next for a row: its largest logit; how many tokens there are from a logit on, or how much they weigh; a list of the
// few that are kept; or the weights of all that are.
enum { Largest = 0, Counts, Masses, Few, Kept, Done };

// State is how far a row is. A first draw of two is that of a row that nothing holds.
struct State {
  double want, over;        // what tokens from low on sum to, or more, negative until it is known; what those from up on do, less
  int phase, second, held;  // second is 0 in the first draw of two; held says whether a mask holds in the other
  int maskAt, mask;         // it: where, and how many words
  int high, low, up, shift; // orders of logits: the largest; what is sought is from low on and before up, in steps of 2^shift
  int cut, ties;            // the least that top_k keeps, and how many of that
  int free;                 // the token of the first draw, or -1
  int arrived, few;         // blocks that have left their sums, tokens that are listed
  int unused[14];
};
static_assert(sizeof(State) == 128, "a state is 128 bytes");

// Work is what a row has of device memory.
struct Work {
  State state;
  u64 list[FewMax]; // of keys, in no order
};                  // and behind it the sums of each slice
INLINE Work *workOf(char *work, int row, int slices) { return (Work *)(work + row * (i64)(sizeof(Work) + slices * (Sums * 8))); }
INLINE double *sumsOf(const Work *work, int slice) { return (double *)(work + 1) + slice * Sums; }

// Drawing is the shared memory of a block.
struct Drawing {
  State state;
  double sums[Threads];
  int counts[Threads], ranks[Threads];
  u64 keys[FewMax], sorted[FewMax];
  double at, target; // in a walk: the weight before a thread's tokens
  int thread, left, found, last; // the thread, ties that are kept from it on, what was found
};

const int None = -0x7f800000; // the order of -Inf

// What other blocks left in this launch.
INLINE u64 left64(const void *p) { u64 r; asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(r) : "l"(p) : "memory"); return r; }
INLINE double leftSum(const double *p) { return fromBits64((i64)left64(p)); }
INLINE void fence() { asm volatile("membar.gl;" ::: "memory"); }
INLINE int add(int *p, int x) {
  int r;
  asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(x) : "memory");
  return r;
}

// A key is larger for a likelier token: a larger logit, then a lower id. It is never 0.
INLINE u64 keyOf(int order, int id) { return (u64)((u32)order ^ 0x80000000u) << 32 | (u32)~id; }
INLINE int orderOf(u64 key) { return (int)((u32)(key >> 32) ^ 0x80000000u); }
INLINE int idOf(u64 key) { return (int)~(u32)key; }

INLINE double shuffleXor64(double x, u32 mask) {
  u64 b = (u64)bits64(x);
  u32 low = (u32)shuffleXorInt((int)(u32)b, mask), high = (u32)shuffleXorInt((int)(u32)(b >> 32), mask);
  return fromBits64((i64)((u64)high << 32 | low));
}

// load reads a thread's logits of a slice. Behind the last one there are NaNs, which are no tokens.
INLINE void load(const float *x, int first, int vocab, float v[Each]) {
  if (vocab % 4 == 0 && first + Each <= vocab) {
    float4 a = *(const float4 *)(x + first), b = *(const float4 *)(x + first + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    return;
  }
  float none = fromBits(0x7fc00000u);
  UNROLLED for (int j = 0; j < Each; j++) {
    float there = x[least(first + j, vocab - 1)];
    v[j] = first + j < vocab ? there : none;
  }
}

// taken is the first of a thread's logits. Loops that take one after the other are a fourth of the code of unrolled ones.
INLINE float taken(float v[Each]) {
  float x = v[0];
  UNROLLED for (int j = 1; j < Each; j++) v[j - 1] = v[j];
  return x;
}

// fold adds lanes in pairs, of which each keeps half of the sums.
template <int HALF> INLINE void fold(double s[Sums]) {
  bool upper = THREAD & 2 * HALF;
  UNROLLED for (int j = 0; j < HALF; j++) {
    double a = s[j], b = s[j + HALF];
    s[j] = (upper ? b : a) + shuffleXor64(upper ? a : b, 2 * HALF);
  }
}

// leave sums over the block, each of the 16 alike: lane l of a warp comes to have the sum l/2.
INLINE void leave(Drawing &m, double *to, double s[Sums]) {
  int lane = THREAD % 32;
  fold<8>(s), fold<4>(s), fold<2>(s), fold<1>(s);
  s[0] += shuffleXor64(s[0], 1);
  __syncthreads();
  if (lane % 2 == 0) m.sums[THREAD / 32 * Sums + lane / 2] = s[0];
  __syncthreads();
  if (THREAD >= Sums) return;
  double sum = 0;
  UNROLLED for (int w = 0; w < Threads / 32; w++) sum += m.sums[w * Sums + THREAD];
  to[THREAD] = sum;
}

// total leaves the 16 sums over all slices in m.sums.
INLINE void total(Drawing &m, const Work *work, int slices) {
  double sum = 0;
  ROLLED for (int s = THREAD / Sums; s < slices; s += 8 * Sums) {
    double of[8];
    UNROLLED for (int k = 0; k < 8; k++) of[k] = leftSum(sumsOf(work, least(s + k * Sums, slices - 1)) + THREAD % Sums);
    UNROLLED for (int k = 0; k < 8; k++) sum += s + k * Sums < slices ? of[k] : 0;
  }
  __syncthreads();
  m.sums[THREAD] = sum;
  __syncthreads();
  sum = 0;
  if (THREAD < Sums)
    UNROLLED for (int k = 0; k < Threads / Sums; k++) sum += m.sums[k * Sums + THREAD];
  __syncthreads();
  if (THREAD < Sums) m.sums[THREAD] = sum;
  __syncthreads();
}

INLINE u64 largestKey(Drawing &m, u64 key) {
  __syncthreads();
  m.keys[THREAD] = key;
  ROLLED for (int s = Threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (THREAD < s && m.keys[THREAD + s] > m.keys[THREAD]) m.keys[THREAD] = m.keys[THREAD + s];
  }
  __syncthreads();
  return m.keys[0];
}

// hold hides what may not be drawn in a slice, once and for all: what is left of the row's logits is those of its last draw.
INLINE void hold(const State &t, const Row &r, const int *lists, float *x, int vocab, int slice) {
  int first = slice * Slice, end = least(vocab, first + Slice);
  if (r.unfinished)
    ROLLED for (int i = THREAD; i < r.stops; i += Threads) {
      int id = lists[r.stopsAt + i];
      if (id >= first && id < end) x[id] = -infinity();
    }
  first += THREAD * Each;
  if (t.held && first < vocab) {
    u32 allowed = first / 32 < t.mask ? (u32)lists[t.maskAt + first / 32] >> first % 32 : 0;
    ROLLED for (int j = 0; j < Each && first + j < vocab; j++)
      if (!(allowed >> j & 1)) x[first + j] = -infinity();
  }
  __syncthreads();
}

// look leaves what a phase wants to know of a slice.
INLINE void look(Drawing &m, const Row &r, const int *lists, Work *work, float *x, int vocab, int slice) {
  const State &t = m.state;
  int phase = t.phase, low = t.low, shift = t.shift, first = slice * Slice + THREAD * Each;
  float v[Each];
  if (phase == Largest && t.second) hold(t, r, lists, x, vocab, slice);
  load(x, first, vocab, v);
  if (phase == Largest) {
    u64 key = 0;
    UNROLLED for (int j = 0; j < Each; j++)
      if (v[j] == v[j]) {
        u64 own = keyOf(order(v[j]), first + j);
        key = own > key ? own : key;
      }
    key = largestKey(m, key);
    if (THREAD == 0) *sumsOf(work, slice) = fromBits64((i64)key);
    return;
  }
  double top = exact(value(t.high)), bar = exact(r.minP), scale = r.scale, sums[Sums] = {};
  ROLLED for (int j = 0; j < Each; j++) {
    float own = taken(v);
    int o = order(own);
    if (own != own || o < low || o == None) continue;
    if (phase == Few) {
      if (o == low) sums[0] += 1;
      else work->list[add(&work->state.few, 1)] = keyOf(o, first + j);
      continue;
    }
    if (o == low) { // Counts and Masses know of these
      if (phase == Kept) sums[1] += 1;
      continue;
    }
    double w = phase == Counts ? 1 : weightOf((exact(own) - top) * scale);
    if (phase == Kept) {
      sums[0] += w >= bar ? w : 0;
      continue;
    }
    u32 step = ((u32)o - (u32)low - 1) >> shift; // those above the last are of all sums
    UNROLLED for (u32 k = 0; k < Sums; k++)
      if (step >= k) sums[k] += w;
  }
  leave(m, sumsOf(work, slice), sums);
}

// seek begins a search for the largest order with a sum of at least what is wanted.
INLINE void seek(State &t, int phase) { t.phase = phase, t.want = -1, t.over = 0, t.up = t.high + 1, t.shift = 28; }

// narrow brings low and up together, by the sums from 16 orders between them on. All have one order, so none is larger than
// that of more tokens, and low ends where halving would have ended. It says when that is.
INLINE bool narrow(State &t, const double *sums) {
  int j = Sums - 1;
  ROLLED while (j >= 0 && !(sums[j] >= t.want)) j--;
  if (j < 0) {
    t.up = t.low + 1, t.over = sums[0];
  } else {
    i64 at = (i64)t.low + 1 + ((i64)j << t.shift), next = at + (1 << t.shift);
    if (j < Sums - 1 && next < t.up) t.up = (int)next, t.over = sums[j + 1];
    t.low = (int)at;
  }
  ROLLED while (t.shift > 0 && ((u32)t.up - (u32)t.low - 2) >> (t.shift - 4) < Sums) t.shift -= 4;
  return t.up - (i64)t.low == 1;
}

// keptTies says how many of so many ties are kept: as many as top_k does, or as few as reach what is wanted.
INLINE int keptTies(const State &t, int ties, double each) {
  if (t.low == t.cut) ties = least(ties, t.ties);
  if (!(t.want >= 0)) return ties;
  int low = 1, high = ties;
  ROLLED while (low < high) {
    int middle = (low + high) / 2;
    if (t.over + each * middle < t.want) low = middle + 1;
    else high = middle;
  }
  return least(high, ties);
}

// walk finds the thread with whose weight the sum goes above a target. m.sums are the weights of each thread's tokens but for
// ties, m.counts how many of those it has; the first left of them are kept. Where rounding leaves a little of the target over, it
// is the last thread with any weight.
INLINE void walk(Drawing &m, double at, int left, double each, double target) {
  bool found = false;
  m.thread = -1;
  ROLLED for (int i = 0; i < Threads && !found; i++) {
    int own = least(left, m.counts[i]);
    double mass = m.sums[i] + each * own;
    if (mass > 0) m.thread = i, m.at = at, m.left = left, found = at + mass > target;
    at += mass, left -= own;
  }
  m.target = at;
}

// pick draws among what is kept, by id.
INLINE int pick(Drawing &m, const Row &r, Work *work, const float *x, int vocab, int slices) {
  const State &t = m.state;
  int run = (slices + Threads - 1) / Threads, ties = 0, low = t.low;
  double top = exact(value(t.high)), bar = exact(r.minP), scale = r.scale, mass = 0;
  double each = low == None ? 0 : weightOf((exact(value(low)) - top) * scale);
  ROLLED for (int s = THREAD * run; s < least(slices, THREAD * run + run); s++) {
    mass += leftSum(sumsOf(work, s));
    ties += (int)leftSum(sumsOf(work, s) + 1);
  }
  __syncthreads();
  m.sums[THREAD] = mass, m.counts[THREAD] = ties;
  __syncthreads();
  if (THREAD == 0) {
    ties = 0;
    ROLLED for (int i = 0; i < Threads; i++) ties += m.counts[i];
    int left = low == None ? 0 : keptTies(t, ties, each);
    if (each < bar) each = 0;
    walk(m, 0, left, each, infinity());
    double target = times(r.uniform, m.target);
    walk(m, 0, left, each, target);
    int s = m.thread * run, last = s;
    double at = m.at, lastAt = at;
    int lastLeft = left = m.left;
    ROLLED for (int end = least(slices, s + run); s < end; s++) {
      int own = least(left, (int)leftSum(sumsOf(work, s) + 1));
      mass = leftSum(sumsOf(work, s)) + each * own;
      if (mass > 0) {
        last = s, lastAt = at, lastLeft = left;
        if (at + mass > target) break;
      }
      at += mass, left -= own;
    }
    m.found = last, m.at = lastAt, m.left = lastLeft, m.target = target;
  }
  __syncthreads();
  int first = m.found * Slice + THREAD * Each;
  double target = m.target;
  float v[Each];
  load(x, first, vocab, v);
  mass = 0, ties = 0;
  ROLLED for (int j = 0; j < Each; j++) {
    float own = taken(v);
    int o = order(own);
    if (own != own || o == None || o < low) continue;
    if (o == low) ties++;
    else {
      double w = weightOf((exact(own) - top) * scale);
      mass += w >= bar ? w : 0;
    }
  }
  if (each < bar) each = 0;
  m.sums[THREAD] = mass, m.counts[THREAD] = ties;
  __syncthreads();
  if (THREAD == 0) walk(m, m.at, m.left, each, target);
  __syncthreads();
  if (THREAD == m.thread) {
    double at = m.at;
    int left = m.left, id = -1;
    load(x, first, vocab, v);
    ROLLED for (int j = 0; j < Each && !(id >= 0 && at > target); j++) {
      float own = taken(v);
      int o = order(own);
      if (own != own || o == None || o < low || (o == low && left-- <= 0)) continue;
      double w = weightOf((exact(own) - top) * scale);
      if (w < bar || w == 0) continue;
      id = first + j, at += w;
    }
    m.found = id;
  }
  __syncthreads();
  return m.found;
}

// listTies adds the first n tokens with the logit low to the listed ones.
INLINE void listTies(Drawing &m, const Work *work, const float *x, int vocab, int slices, int count, int n) {
  int run = (slices + Threads - 1) / Threads, ties = 0, low = m.state.low, got = 0;
  ROLLED for (int s = THREAD * run; s < least(slices, THREAD * run + run); s++) ties += (int)leftSum(sumsOf(work, s));
  m.counts[THREAD] = ties;
  __syncthreads();
  ROLLED for (int i = 0; i < Threads && got < n; i++) {
    if (m.counts[i] == 0) continue;
    ROLLED for (int s = i * run; s < least(slices, i * run + run) && got < n; s++) {
      int first = s * Slice + THREAD * Each, own = 0;
      float v[Each];
      load(x, first, vocab, v);
      UNROLLED for (int j = 0; j < Each; j++) own += v[j] == v[j] && order(v[j]) == low;
      m.ranks[THREAD] = own;
      __syncthreads();
      ROLLED for (int d = 1; d < Threads; d *= 2) {
        int before = THREAD >= d ? m.ranks[THREAD - d] : 0;
        __syncthreads();
        m.ranks[THREAD] += before;
        __syncthreads();
      }
      int rank = got + m.ranks[THREAD] - own;
      UNROLLED for (int j = 0; j < Each; j++)
        if (v[j] == v[j] && order(v[j]) == low) {
          if (rank < n) m.keys[count + rank] = keyOf(low, first + j);
          rank++;
        }
      got += m.ranks[Threads - 1];
      __syncthreads();
    }
  }
}

// pickFew draws among the few that top_k keeps, in order of likelihood and with the sums of package sample.
INLINE int pickFew(Drawing &m, const Row &r, const Work *work, const float *x, int vocab, int slices) {
  int count = (int)(u32)(left64(&work->state.arrived) >> 32), n = m.state.ties;
  ROLLED for (int i = THREAD; i < count; i += Threads) m.keys[i] = left64(&work->list[i]);
  __syncthreads();
  if (n > 0) listTies(m, work, x, vocab, slices, count, n);
  count += n;
  __syncthreads();
  ROLLED for (int i = THREAD; i < count; i += Threads) {
    u64 key = m.keys[i];
    int rank = 0;
    ROLLED for (int k = 0; k < count; k++) rank += m.keys[k] > key;
    m.sorted[rank] = key;
  }
  __syncthreads();
  double top = exact(value(m.state.high)), *weights = (double *)m.keys;
  ROLLED for (int i = THREAD; i < count; i += Threads)
    weights[i] = weightOf((exact(value(orderOf(m.sorted[i]))) - top) * r.scale);
  __syncthreads();
  if (THREAD == 0) {
    double mass = 0, kept = 0, bar = exact(r.minP);
    ROLLED for (int i = 0; i < count; i++) mass += weights[i];
    double want = times(exact(r.topP), mass);
    int end = 0, at = 0;
    ROLLED while (end < count && (end == 0 || weights[end] >= bar) && (kept < want || !(r.topP < 1))) kept += weights[end++];
    double target = times(r.uniform, kept);
    ROLLED while (at < end && !((target -= weights[at]) < 0)) at++;
    m.found = idOf(m.sorted[at < end ? at : 0]); // rounding left a little of the target over
  }
  __syncthreads();
  return m.found;
}

// lowest is the lowest id that is not hidden: nothing is possible.
INLINE int lowest(const Row &r, const int *lists, int vocab) {
  int id = 0;
  ROLLED for (int i = 0; i < r.hidden; i++) {
    int h = lists[r.hiddenAt + i];
    if (h == id) id++;
    else if (h > id) break;
  }
  return id < vocab ? id : 0;
}

// weigh says what comes next when it is known what top_k keeps, and that this is not few.
INLINE void weigh(State &t, const Row &r) {
  if (r.topP < 1) seek(t, Masses);
  else t.phase = Kept, t.want = -1;
}
INLINE void filter(State &t, const Row &r) {
  if (r.few) t.phase = Few;
  else weigh(t, r);
}

// decide brings a row to its next phase, or comes to a token; -1 is none yet. Every thread of the row's last block is here.
INLINE int decide(Drawing &m, const Row &r, const int *lists, Work *work, const float *x, int vocab, int slices) {
  State &t = m.state;
  switch (t.phase) {
  case Largest: {
    u64 key = 0;
    ROLLED for (int s = THREAD; s < slices; s += Threads) {
      u64 own = left64(sumsOf(work, s));
      key = own > key ? own : key;
    }
    key = largestKey(m, key);
    int high = key == 0 ? None : orderOf(key);
    if (high == None) return lowest(r, lists, vocab);
    if (r.greedy || high == 0x7f800000) return idOf(key);
    if (THREAD == 0) {
      t.high = high, t.low = t.cut = None, t.ties = 0;
      if (r.topK > 0 && r.topK < vocab) seek(t, Counts);
      else weigh(t, r);
    }
    return -1;
  }
  case Few: return pickFew(m, r, work, x, vocab, slices);
  case Kept: return most(pick(m, r, work, x, vocab, slices), 0);
  }
  total(m, work, slices);
  if (THREAD != 0) return -1;
  bool counts = t.phase == Counts;
  if (!counts || t.want >= 0 || m.sums[0] > r.topK) { // otherwise all are kept
    if (t.want < 0) {
      double each = t.ties > 0 ? weightOf((exact(value(t.cut)) - exact(value(t.high))) * r.scale) : 0;
      t.want = counts ? r.topK : exact(r.topP) * (m.sums[0] + each * t.ties);
    }
    if (!narrow(t, m.sums)) return -1;
    if (counts) t.cut = t.low, t.ties = r.topK - (int)t.over;
  }
  if (counts) filter(t, r);
  else t.phase = Kept;
  return -1;
}

// advance notes a token that was drawn: the first of two, whose row goes on with the second, or the row's.
INLINE void advance(Drawing &m, const Row &r, const int *lists, int *tokens, int *frees, int token) {
  State &t = m.state;
  if (t.second) {
    if (THREAD == 0) tokens[r.index] = token, frees[r.index] = t.free, t.phase = Done;
    return;
  }
  if (THREAD == 0) m.last = 0;
  __syncthreads();
  ROLLED for (int i = THREAD; i < r.stops; i += Threads)
    if (lists[r.stopsAt + i] == token) m.last = 1;
  __syncthreads();
  if (THREAD != 0) return;
  if (m.last) t.maskAt = r.endingAt, t.mask = r.ending;
  t.phase = Largest, t.second = 1, t.free = token;
}

// beginDraws has a block per row of logits, which it changes. ids are the tokens of the step's rows.
KERNEL(256) beginDraws(char *work, float *logits, const Row *rows, const int *lists, const int *ids, int vocab) {
  __shared__ Memory m;
  const Row &r = rows[BLOCK_X];
  Work *own = workOf(work, BLOCK_X, (vocab + Slice - 1) / Slice);
  bool held = r.held && (r.trigger < 0 || r.trigger == ids[r.own]);
  if (r.index >= 0) adjust(m, r, lists, logits + (i64)BLOCK_X * vocab, vocab, ids + r.newest);
  if (THREAD != 0) return;
  State s = {};
  s.phase = r.index < 0 ? Done : Largest; // the host draws
  s.second = !(held && r.ending >= 0), s.held = held, s.maskAt = r.allowedAt, s.mask = r.allowed, s.free = -1;
  own->state = s;
}

// draw brings rows one phase on, with blocks of so many slices each. A block that has all of a row's brings it to its end.
ROOMY(256, 2) draw(int *tokens, int *frees, char *work, float *logits, const Row *rows, const int *lists, int vocab, int each) {
  __shared__ Drawing m;
  const Row &r = rows[BLOCK_X];
  int slices = (vocab + Slice - 1) / Slice, from = BLOCK_Y * each, to = least(slices, from + each), blocks = (slices + each - 1) / each;
  Work *own = workOf(work, BLOCK_X, slices);
  float *x = logits + (i64)BLOCK_X * vocab;
  enum { Words = sizeof(State) / 4 };
  do {
    if (THREAD < Words) ((int *)&m.state)[THREAD] = ((const int *)&own->state)[THREAD];
    __syncthreads();
    if (m.state.phase == Done) return;
    ROLLED for (int s = from; s < to; s++) look(m, r, lists, own, x, vocab, s);
    fence();
    __syncthreads();
    if (THREAD == 0) m.last = add(&own->state.arrived, 1) == blocks - 1;
    __syncthreads();
    if (!m.last) return;
    fence();
    int token = decide(m, r, lists, own, x, vocab, slices);
    if (token >= 0) advance(m, r, lists, tokens, frees, token);
    __syncthreads();
    if (THREAD == 0) m.state.arrived = 0, m.state.few = 0;
    __syncthreads();
    if (THREAD < Words) ((int *)&own->state)[THREAD] = ((const int *)&m.state)[THREAD];
    __syncthreads();
  } while (blocks == 1);
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
