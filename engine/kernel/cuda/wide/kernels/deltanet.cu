// Gated DeltaNet of many rows, 64 at a time. Within such a chunk, with G the sums of the gates' logarithms and
// A[i][j] = beta_i·exp(G_i-G_j)·k_i·k_j below the diagonal, (I+A)⁻¹ gives what each row adds to the state in terms of the state
// before the chunk (U - W·S): chunks are prepared all at once, and then scanned in order.
//
// What a chunk of a head leaves for the scan, in float32: W and Q·exp(G) [64][D], K·exp(G_last-G) [64][D], U [64][D],
// exp(G_i-G_j)·q_i·k_j [64][64], exp(G_last) in the first of 4 values.
#include "wide.h"
#include "../../eager/kernels/states.h"

enum { Chunk = 64 };

template <int D> struct Left {
  enum { W = 0, Q = Chunk * D, K = 2 * Chunk * D, U = 3 * Chunk * D, P = 4 * Chunk * D, Gate = P + Chunk * Chunk, Floats = Gate + 4 };
};

extern __shared__ __attribute__((aligned(128))) float memory[];

// fragment reads 16 rows x 8 values of a matrix as the first factor.
INLINE void fragment(u32 *a, const float *m, int pitch) {
  int lane = THREAD % 32;
  const float *at = m + lane / 4 * pitch + lane % 4;
  a[0] = toTF(at[0]), a[1] = toTF(at[8 * pitch]), a[2] = toTF(at[4]), a[3] = toTF(at[8 * pitch + 4]);
}

// normed reads a row of a head by a warp, to a length of 1.
template <int D> INLINE void normed(float *to, const float *from, bool there, float eps, float by) {
  int lane = THREAD % 32;
  float x[D / 32], sum = 0;
  UNROLLED for (int e = 0; e < D / 32; e++) x[e] = there ? from[lane + 32 * e] : 0, sum = fused(x[e], x[e], sum);
  float scale = inverseRoot(warpSum(sum) + eps) * by;
  UNROLLED for (int e = 0; e < D / 32; e++) to[lane + 32 * e] = x[e] * scale;
}

// similar multiplies 16 rows of q or k with all of k: rows 16·part of the result go to A, transposed, or to P.
template <int D> INLINE void similar(int job, const float *q, const float *k, const float *gates, const float *betas, float *a, float *p) {
  enum { Pitch = D + 4 };
  int lane = THREAD % 32, part = job % 4 * 16;
  bool own = job < 4;
  float sum[8][4];
  UNROLLED for (int j = 0; j < 8; j++) UNROLLED for (int v = 0; v < 4; v++) sum[j][v] = 0;
  ROLLED for (int kk = 0; kk < D; kk += 8) {
    u32 f[4];
    fragment(f, (own ? k : q) + part * Pitch + kk, Pitch);
    UNROLLED for (int j = 0; j < 8; j++) {
      const float *b = k + (j * 8 + lane / 4) * Pitch + kk + lane % 4;
      multiplyTF(sum[j], f, toTF(b[0]), toTF(b[4]));
    }
  }
  UNROLLED for (int j = 0; j < 8; j++)
    UNROLLED for (int v = 0; v < 4; v++) {
      int row = part + lane / 4 + v / 2 * 8, column = j * 8 + lane % 4 * 2 + v % 2;
      float by = exponential(smaller(gates[row] - gates[column], 0)) * sum[j][v];
      if (own) a[column * (Chunk + 4) + row] = (j < 7 || v > 1) && column < row ? by * betas[row] : 0;
      else p[row * Chunk + column] = column <= row ? by : 0;
    }
}

// solve is (I+A)⁻¹ times one column of beta·V or of beta·exp(G)·K, by one thread, 16 rows at a time.
INLINE void solve(float *column, int pitch, const float *a, const float *by) {
  ROLLED for (int block = 0; block < Chunk; block += 16) {
    float x[16];
    UNROLLED for (int i = 0; i < 16; i++) x[i] = column[(block + i) * pitch] * by[block + i];
    ROLLED for (int j = 0; j < block; j++) {
      float y = column[j * pitch];
      const float4 *row = (const float4 *)(a + j * (Chunk + 4) + block);
      UNROLLED for (int i = 0; i < 4; i++) {
        float4 v = row[i];
        x[4 * i] = fused(-v.x, y, x[4 * i]), x[4 * i + 1] = fused(-v.y, y, x[4 * i + 1]);
        x[4 * i + 2] = fused(-v.z, y, x[4 * i + 2]), x[4 * i + 3] = fused(-v.w, y, x[4 * i + 3]);
      }
    }
    UNROLLED for (int j = 0; j < 16; j++)
      UNROLLED for (int i = j + 1; i < 16; i++) x[i] = fused(-a[(block + j) * (Chunk + 4) + block + i], x[j], x[i]);
    UNROLLED for (int i = 0; i < 16; i++) column[(block + i) * pitch] = x[i];
  }
}

// prepare has a block of 2·D threads per chunk and head. Chunks are {first row, rows}.
template <int D> INLINE void prepare(float *left, const float *mixed, const float *beta, const float *alpha, const float *a, const float *bias,
                                     const int *chunks, int channels, int kHeads, int vHeads, int tiled, float eps) {
  enum { Pitch = D + 4, Warps = D / 16 };
  float *q = memory, *k = q + Chunk * Pitch, *v = k + Chunk * Pitch, *similarity = v + Chunk * Pitch;
  float *gates = similarity + Chunk * (Chunk + 4), *betas = gates + Chunk, *both = betas + Chunk;
  int lane = THREAD % 32, warp = THREAD / 32, head = BLOCK_Y, kHead = tiled ? head % kHeads : head / (vHeads / kHeads);
  const int *chunk = chunks + 2 * BLOCK_X;
  float *to = left + ((i64)BLOCK_X * vHeads + head) * Left<D>::Floats;
  ROLLED for (int i = warp; i < Chunk; i += Warps) {
    bool there = i < chunk[1];
    const float *in = mixed + (i64)(chunk[0] + (there ? i : 0)) * channels;
    normed<D>(q + i * Pitch, in + kHead * D, there, eps, inverseRoot((float)D));
    normed<D>(k + i * Pitch, in + (kHeads + kHead) * D, there, eps, 1);
    UNROLLED for (int e = 0; e < D / 32; e++) v[i * Pitch + lane + 32 * e] = there ? in[(2 * kHeads + head) * D + lane + 32 * e] : 0;
  }
  if (THREAD < Chunk) {
    bool there = THREAD < chunk[1];
    i64 at = (i64)(chunk[0] + (there ? THREAD : 0)) * vHeads + head;
    float x = alpha[at] + bias[head];
    both[THREAD] = there ? a[head] * (x <= 20.0f ? logOnePlus(exponential(x)) : x) : 0;
    betas[THREAD] = there ? sigmoid(beta[at]) : 0;
  }
  __syncthreads();
  if (THREAD < Chunk) {
    float sum = 0;
    ROLLED for (int i = 0; i <= THREAD; i++) sum += both[i];
    gates[THREAD] = sum;
  }
  __syncthreads();
  if (THREAD < Chunk) both[THREAD] = betas[THREAD] * exponential(gates[THREAD]);
  ROLLED for (int job = warp; job < 8; job += Warps) similar<D>(job, q, k, gates, betas, similarity, to + Left<D>::P);
  float last = gates[Chunk - 1];
  ROLLED for (int i = THREAD; i < Chunk * D; i += 2 * D) {
    int row = i / D, at = row * Pitch + i % D;
    to[Left<D>::Q + i] = q[at] * exponential(gates[row]);
    to[Left<D>::K + i] = k[at] * exponential(last - gates[row]);
  }
  if (THREAD == 0) to[Left<D>::Gate] = exponential(last);
  __syncthreads();
  if (THREAD < D) solve(v + THREAD, Pitch, similarity, betas);
  else solve(k + THREAD - D, Pitch, similarity, both);
  __syncthreads();
  ROLLED for (int i = THREAD; i < Chunk * D; i += 2 * D) {
    int at = i / D * Pitch + i % D;
    to[Left<D>::U + i] = v[at], to[Left<D>::W + i] = k[at];
  }
}

// bring copies 64 rows of WIDTH values.
template <int WIDTH> INLINE void bring(float *to, int pitch, const float *from, int stride) {
  u32 base = sharedAddress(to);
  ROLLED for (int i = THREAD; i < Chunk * WIDTH / 4; i += 128) {
    int row = i / (WIDTH / 4), at = i % (WIDTH / 4) * 4;
    copyAsync(base + (row * pitch + at) * 4, from + (i64)row * stride + at, true);
  }
}

// times adds 16 rows of m, DEPTH wide, times 32 columns of n.
template <int DEPTH> INLINE void times(float sum[4][4], const float *m, int pitch, const float *n, int pitchN, float sign) {
  int lane = THREAD % 32;
  ROLLED for (int kk = 0; kk < DEPTH; kk += 8) {
    u32 f[4];
    fragment(f, m + kk, pitch);
    UNROLLED for (int j = 0; j < 4; j++) {
      const float *b = n + (kk + lane % 4) * pitchN + j * 8 + lane / 4;
      multiplyTF(sum[j], f, toTF(sign * b[0]), toTF(sign * b[4 * pitchN]));
    }
  }
}

// scan has a block of 4 warps per 32 columns of a head's state and span, and takes the state through the span's chunks, whose
// numbers begin at and end before what spans say: {first row, rows, slot, first chunk, last chunk and one}.
template <int D> INLINE void scan(float *dst, const float *left, float *states, const int *spans, i64 slotFloats, int vHeads, int brain) {
  enum { Pitch = D + 4, PitchK = D + 8, Columns = 32, PitchN = 40, PitchP = Chunk + 4, Each = D / 64 };
  float *w = memory, *q = w + Chunk * Pitch, *k = q + Chunk * Pitch, *p = k + Chunk * PitchK;
  float *state = p + Chunk * PitchP, *added = state + D * PitchN;
  int lane = THREAD % 32, warp = THREAD / 32, group = BLOCK_X * Columns, head = BLOCK_Y;
  const int *span = spans + 5 * BLOCK_Z;
  float s[Each][4][4];
  int column = lane % 4 * 2, row = lane / 4;
  i64 slot = stateIn(span[2], slotFloats, brain) + ((i64)head * D + warp * (D / 4) + row) * D + group + column;
  UNROLLED for (int e = 0; e < Each; e++)
    UNROLLED for (int j = 0; j < 4; j++)
      UNROLLED for (int v = 0; v < 4; v += 2) keptAt<2, 1>(s[e][j] + v, states, slot + (e * 16 + v / 2 * 8) * D + j * 8, brain);
  ROLLED for (int chunk = span[3]; chunk < span[4]; chunk++) {
    const float *from = left + ((i64)chunk * vHeads + head) * Left<D>::Floats;
    bring<D>(w, Pitch, from + Left<D>::W, D), bring<D>(q, Pitch, from + Left<D>::Q, D), bring<D>(k, PitchK, from + Left<D>::K, D);
    bring<Chunk>(p, PitchP, from + Left<D>::P, Chunk);
    commitAsync();
    UNROLLED for (int e = 0; e < Each; e++)
      UNROLLED for (int j = 0; j < 4; j++)
        UNROLLED for (int v = 0; v < 4; v++)
          state[(warp * (D / 4) + e * 16 + row + v / 2 * 8) * PitchN + j * 8 + column + v % 2] = s[e][j][v];
    float u[4][4], o[4][4];
    UNROLLED for (int j = 0; j < 4; j++)
      UNROLLED for (int v = 0; v < 4; v++)
        u[j][v] = from[Left<D>::U + (warp * 16 + row + v / 2 * 8) * D + group + j * 8 + column + v % 2], o[j][v] = 0;
    waitAsync<0>();
    __syncthreads();
    times<D>(u, w + warp * 16 * Pitch, Pitch, state, PitchN, -1);
    UNROLLED for (int j = 0; j < 4; j++)
      UNROLLED for (int v = 0; v < 4; v++) added[(warp * 16 + row + v / 2 * 8) * PitchN + j * 8 + column + v % 2] = u[j][v];
    __syncthreads();
    times<D>(o, q + warp * 16 * Pitch, Pitch, state, PitchN, 1);
    times<Chunk>(o, p + warp * 16 * PitchP, PitchP, added, PitchN, 1);
    int first = span[0] + (chunk - span[3]) * Chunk, end = span[0] + span[1];
    UNROLLED for (int v = 0; v < 4; v++) {
      int at = first + warp * 16 + row + v / 2 * 8;
      if (at < end) UNROLLED for (int j = 0; j < 4; j++) dst[((i64)at * vHeads + head) * D + group + j * 8 + column + v % 2] = o[j][v];
    }
    float gate = from[Left<D>::Gate];
    UNROLLED for (int e = 0; e < Each; e++) {
      UNROLLED for (int j = 0; j < 4; j++) UNROLLED for (int v = 0; v < 4; v++) s[e][j][v] *= gate;
      ROLLED for (int kk = 0; kk < Chunk; kk += 8) { // K transposed
        const float *at = k + (kk + lane % 4) * PitchK + warp * (D / 4) + e * 16 + row;
        u32 f[4] = {toTF(at[0]), toTF(at[8]), toTF(at[4 * PitchK]), toTF(at[4 * PitchK + 8])};
        UNROLLED for (int j = 0; j < 4; j++) {
          const float *b = added + (kk + lane % 4) * PitchN + j * 8 + row;
          multiplyTF(s[e][j], f, toTF(b[0]), toTF(b[4 * PitchN]));
        }
      }
    }
    __syncthreads();
  }
  UNROLLED for (int e = 0; e < Each; e++)
    UNROLLED for (int j = 0; j < 4; j++)
      UNROLLED for (int v = 0; v < 4; v += 2) keepAt<2, 1>(s[e][j] + v, states, slot + (e * 16 + v / 2 * 8) * D + j * 8, brain);
}

#define DELTANET(width)                                                                                                        \
  KERNEL(2 * width) prepare##width(float *left, const float *mixed, const float *beta, const float *alpha, const float *a,      \
                                   const float *bias, const int *chunks, int channels, int kHeads, int vHeads, int tiled, float eps) { \
    prepare<width>(left, mixed, beta, alpha, a, bias, chunks, channels, kHeads, vHeads, tiled, eps);                            \
  }                                                                                                                            \
  KERNEL(128) scan##width(float *dst, const float *left, float *states, const int *spans, i64 slotFloats, int vHeads, int brain) { \
    scan<width>(dst, left, states, spans, slotFloats, vHeads, brain);                                                           \
  }
DELTANET(64)
DELTANET(128)

// finish has a block per row, and a warp per head in turn: the norm of what the scan wrote, and the gate.
KERNEL(256) finish(float *x, const float *z, const float *norm, int heads, int d, float eps) {
  int lane = THREAD % 32;
  ROLLED for (int head = THREAD / 32; head < heads; head += 8) {
    i64 at = ((i64)BLOCK_X * heads + head) * d;
    float sum = 0;
    ROLLED for (int i = lane; i < d; i += 32) sum = fused(x[at + i], x[at + i], sum);
    float scale = inverseRoot(warpSum(sum) * inverse((float)d) + eps);
    ROLLED for (int i = lane; i < d; i += 32) x[at + i] = x[at + i] * scale * norm[i] * silu(z[at + i]);
  }
}
