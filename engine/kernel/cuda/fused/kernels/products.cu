// Products of a step's rows with matrices, each with what comes before and after it. A block has 8 warps, and
// a warp a few outputs for up to ROWS rows. Blocks of the same outputs follow each other, so that a matrix is read once.
#include "fused.h"

enum { Warps = 8, NormedOuts = 4, AddedOuts = 2 };

// Part is one of several matrices that a row is multiplied with.
struct Part {
  const void *w, *pair; // with a pair, silu(w x)·(pair x) goes out
  float *dst;           // rows of stride values
  const float *bias;    // null for none; never with a pair
  u16 type, pairType;
  int outputs, stride, tiles, adds, none; // tiles are the part's blocks, adds is that dst gets more of it
};

// Convolution is what the outputs of the first part go through where taps is not 0: DeltaNet's short convolution,
// whose old inputs lie in the row's slot. at is where those of the layer begin in the first slot. Where a sequence has
// several rows, convolveSpan does it.
struct Convolution {
  float *at;
  const float *w;
  i64 slotFloats;
  int taps;
};

// convolved takes an input in and gives the output. The lane alone knows this channel of this row.
INLINE float convolved(const Convolution &c, int slot, int channel, int channels, float in) {
  float *old = c.at + (i64)slot * c.slotFloats + channel, sum = 0;
  const float *w = c.w + channel * c.taps;
  ROLLED for (int t = 0; t < c.taps - 1; t++) {
    float x = old[(i64)t * channels];
    sum = fused(x, w[t], sum);
    if (t > 0) old[(i64)(t - 1) * channels] = x;
  }
  if (c.taps > 1) old[(i64)(c.taps - 2) * channels] = in;
  return silu(fused(in, w[c.taps - 1], sum));
}

// norms leaves the RMS norms of ROWS rows of x, from first on, in memory; rows behind the last are the last. A thread has every
// 256th value, and Ahead loads of each of two rows are on their way before one is waited for.
template <int ROWS>
INLINE void norms(float *memory, const float *x, const float *norm, float *normedOut, int first, int n, int cols, float eps) {
  enum { Ahead = 8, Step = 32 * Warps, Two = ROWS > 1 ? 2 : 1 };
  __shared__ float scratch[ROWS][Warps];
  int lane = THREAD % 32, warp = THREAD / 32;
  ROLLED for (int r = 0; r < ROWS; r += Two) {
    float sum[Two] = {};
    ROLLED for (int i = THREAD; i < cols; i += Ahead * Step) {
      float v[Two][Ahead];
      UNROLLED for (int t = 0; t < Two; t++)
        UNROLLED for (int k = 0; k < Ahead; k++)
          v[t][k] = i + k * Step < cols ? x[(i64)least(first + r + t, n - 1) * cols + i + k * Step] : 0;
      UNROLLED for (int t = 0; t < Two; t++)
        UNROLLED for (int k = 0; k < Ahead; k++) {
          sum[t] = fused(v[t][k], v[t][k], sum[t]);
          if (i + k * Step < cols) memory[(r + t) * cols + i + k * Step] = v[t][k];
        }
    }
    UNROLLED for (int t = 0; t < Two; t++) {
      float all = warpSum(sum[t]);
      if (lane == 0) scratch[r + t][warp] = all;
    }
  }
  __syncthreads();
  float scale[ROWS];
  UNROLLED for (int r = 0; r < ROWS; r++) {
    float sum = 0;
    UNROLLED for (int w = 0; w < Warps; w++) sum += scratch[r][w];
    scale[r] = inverseRoot(sum / (float)cols + eps);
  }
  ROLLED for (int i = THREAD; i < cols; i += Step) {
    float by = norm[i];
    UNROLLED for (int r = 0; r < ROWS; r++) memory[r * cols + i] = memory[r * cols + i] * scale[r] * by;
  }
  if (normedOut)
    ROLLED for (int r = 0; r < ROWS && first + r < n; r++)
      ROLLED for (int i = THREAD; i < cols; i += Step) normedOut[(i64)(first + r) * cols + i] = memory[r * cols + i];
  __syncthreads();
}

// normed multiplies the RMS norm of rows of x with parts. normedOut, which may be null, gets the norm.
template <int ROWS> INLINE void normed(const float *x, const float *norm, float *normedOut, const Part *part, const int *step, int cols,
                                       float eps, const Convolution &conv) {
  extern __shared__ float memory[];
  int first = BLOCK_X * ROWS, n = step[0], tile = BLOCK_Y, lane = THREAD % 32, warp = THREAD / 32;
  if (first >= n) return;
  norms<ROWS>(memory, x, norm, tile == 0 ? normedOut : 0, first, n, cols, eps);
  bool convolves = conv.taps > 0;
  while (tile >= part->tiles) tile -= part->tiles, part++, convolves = false;
  int out = (tile * Warps + warp) * NormedOuts;
  if (out >= part->outputs) return;
  const float *rows[ROWS];
  UNROLLED for (int r = 0; r < ROWS; r++) rows[r] = memory + r * cols;
  float v = product<NormedOuts, ROWS>(part->type, part->w, 0, out, part->outputs, rows, cols);
  if (part->pair) v = silu(v) * product<NormedOuts, ROWS>(part->pairType, part->pair, 0, out, part->outputs, rows, cols);
  int own = out + lane / ROWS, row = first + lane % ROWS;
  if (lane >= NormedOuts * ROWS || own >= part->outputs || row >= n) return;
  if (part->bias) v += part->bias[own];
  if (convolves) v = convolved(conv, rowOf(step, row)[3], own, part->outputs, v);
  float *to = part->dst + (i64)row * part->stride + own;
  if (part->adds) v += *to;
  *to = v;
}

// added adds the products of rows of y with a matrix to rows of x.
template <int ROWS>
INLINE void added(float *x, const float *y, const void *w, const float *bias, const int *step, int type, int outputs, int cols) {
  int first = BLOCK_X * ROWS, n = step[0], lane = THREAD % 32, out = (BLOCK_Y * Warps + THREAD / 32) * AddedOuts;
  if (first >= n || out >= outputs) return;
  const float *rows[ROWS];
  UNROLLED for (int r = 0; r < ROWS; r++) rows[r] = y + (i64)least(first + r, n - 1) * cols;
  float v = product<AddedOuts, ROWS>(type, w, 0, out, outputs, rows, cols);
  int own = out + lane / ROWS, row = first + lane % ROWS;
  if (lane >= AddedOuts * ROWS || own >= outputs || row >= n) return;
  if (bias) v += bias[own];
  x[(i64)row * outputs + own] += v;
}

#define PRODUCTS(rows, blocks)                                                                                                         \
  ROOMY(256, blocks) normed##rows(const float *x, const float *norm, float *normedOut, const Part *parts, const int *step, float *convAt, \
                           const float *convW, i64 slotFloats, int taps, int cols, float eps) {                                \
    normed<rows>(x, norm, normedOut, parts, step, cols, eps, Convolution{convAt, convW, slotFloats, taps});                    \
  }                                                                                                                            \
  ROOMY(256, blocks) added##rows(float *x, const float *y, const void *w, const float *bias, const int *step, int type, int outputs, int cols) { \
    added<rows>(x, y, w, bias, step, type, outputs, cols);                                                                     \
  }
PRODUCTS(1, 3)
PRODUCTS(4, 2)
PRODUCTS(8, 2)

// begin has a block per row: its token, which may be one that the step before drew, and the embedding.
KERNEL(256) begin(float *x, int *ids, const void *table, const int *drawn, const int *step, int type, int cols) {
  int row = BLOCK_X;
  if (row >= step[0]) return;
  int token = rowOf(step, row)[0];
  if (token < 0) token = drawn[-1 - token];
  if (THREAD == 0) ids[row] = token;
  ROLLED for (int i = THREAD; i < cols; i += 256) x[(i64)row * cols + i] = weightAt(type, table, (i64)token * cols + i);
}

// embedRows has a block per row, whose tokens are given.
KERNEL(256) embedRows(float *x, const int *ids, const void *table, const int *step, int type, int cols) {
  int row = BLOCK_X;
  if (row >= step[0]) return;
  ROLLED for (int i = THREAD; i < cols; i += 256) x[(i64)row * cols + i] = weightAt(type, table, (i64)ids[row] * cols + i);
}

// pickRows has a block per row: it is the row from[row] of src.
KERNEL(256) pickRows(float *dst, const float *src, const int *from, const int *step, int cols) {
  int row = BLOCK_X;
  if (row >= step[0]) return;
  ROLLED for (int i = THREAD; i < cols; i += 256) dst[(i64)row * cols + i] = src[(i64)from[row] * cols + i];
}
