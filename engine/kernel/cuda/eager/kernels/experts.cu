// A mixture of experts: the choice, then the chosen ones pair by pair.
#include "common.h"

enum { ExpertsMax = 1024 };

// larger of two candidates; of equal ones the lower index.
INLINE void better(float &value, int &index, float v, int i) {
  if (v > value || (v == value && i < index)) value = v, index = i;
}
// best of values [from, to) that are not taken, by one warp.
INLINE int best(const float *values, const int *taken, int from, int to) {
  float value = -infinity();
  int index = 0x7fffffff;
  ROLLED for (int i = from + THREAD; i < to; i += 32)
    if (!taken[i]) better(value, index, values[i], i);
  UNROLLED for (u32 m = 16; m > 0; m >>= 1) {
    float v = shuffleXor(value, m);
    int i = shuffleXorInt(index, m);
    better(value, index, v, i);
  }
  return index == 0x7fffffff ? from : index; // only of numbers that are none
}
INLINE void take(int *taken, int i) {
  __syncthreads();
  if (THREAD == 0) taken[i] = 1;
  __syncthreads();
}

// route has one warp per row. scores are shares of the softmax, or sigmoids.
KERNEL(32) route(int *ids, float *weights, const float *logits, const float *bias, int experts, int top, int sigmoids,
                 int groups, int groupsUsed, int groupTop, int plain, float scale) {
  __shared__ float scores[ExpertsMax], rank[ExpertsMax], sums[ExpertsMax];
  __shared__ int taken[ExpertsMax], out[ExpertsMax];
  const float *row = logits + (i64)BLOCK_X * experts;
  float high = -infinity(), total = 0;
  ROLLED for (int i = THREAD; i < experts; i += 32) high = larger(high, row[i]);
  high = warpMax(high);
  ROLLED for (int i = THREAD; i < experts; i += 32) {
    float s = sigmoids ? sigmoid(row[i]) : exponential(row[i] - high);
    scores[i] = s, total += s, taken[i] = 0, out[i] = 0;
  }
  total = sigmoids ? 1.0f : warpSum(total);
  ROLLED for (int i = THREAD; i < experts; i += 32) {
    scores[i] /= total;
    // Logits tell apart what scores may round to one number.
    rank[i] = bias ? scores[i] + bias[i] : groups > 1 ? scores[i] : row[i];
  }
  __syncthreads();
  if (groups > 1) {
    int size = experts / groups;
    ROLLED for (int g = 0; g < groups; g++) {
      float sum = 0;
      ROLLED for (int k = 0; k < groupTop; k++) {
        int i = best(rank, taken, g * size, (g + 1) * size);
        sum += rank[i];
        take(taken, i);
      }
      if (THREAD == 0) sums[g] = sum;
    }
    __syncthreads();
    ROLLED for (int k = 0; k < groupsUsed; k++) take(out, best(sums, out, 0, groups));
    ROLLED for (int i = THREAD; i < experts; i += 32) {
      if (!out[i / size]) rank[i] = -infinity();
      taken[i] = 0;
    }
    __syncthreads();
  }
  total = 0;
  ROLLED for (int k = 0; k < top; k++) {
    int i = best(rank, taken, 0, experts);
    total += scores[i];
    if (THREAD == 0) ids[BLOCK_X * top + k] = i;
    take(taken, i);
  }
  float by = (plain ? 1.0f : 1.0f / total) * scale;
  if (THREAD == 0) ROLLED for (int k = 0; k < top; k++) weights[BLOCK_X * top + k] = scores[ids[BLOCK_X * top + k]] * by;
}

// expertUp has a warp per pair of row and expert, and value between gate and up on one side
// and down on the other.
KERNEL(128) expertUp(float *dst, const float *x, const int *ids, const void *gate, const void *up, const float *gateBias,
                     const float *upBias, int gateType, int upType, int top, int rows, int cols, float limit, float alpha) {
  int j = BLOCK_X * 4 + THREAD / 32, pair = BLOCK_Y;
  if (j >= rows) return;
  i64 at = (i64)ids[pair] * rows + j;
  const float *from[1] = {x + (i64)(pair / top) * cols};
  float g[1] = {0}, u[1] = {0};
  dots<1>(gateType, gate, at * cols, from, cols, g);
  dots<1>(upType, up, at * cols, from, cols, u);
  if (THREAD % 32 != 0) return;
  float a = g[0], b = u[0];
  if (gateBias) a += gateBias[at], b += upBias[at];
  if (limit != 0) {
    a = smaller(a, limit), b = larger(-limit, smaller(b, limit));
    dst[(i64)pair * rows + j] = (b + 1.0f) * a * inverse(1.0f + exponential(-alpha * a));
  } else {
    dst[(i64)pair * rows + j] = silu(a) * b;
  }
}

// expertDown has a warp per row and output, and takes the row's experts best first.
KERNEL(128) expertDown(float *dst, const float *h, const int *ids, const float *weights, const void *down, const float *bias,
                       int type, int top, int rows, int cols) {
  int j = BLOCK_X * 4 + THREAD / 32, row = BLOCK_Y;
  if (j >= rows) return;
  float sum = 0;
  ROLLED for (int k = 0; k < top; k++) {
    int pair = row * top + k;
    i64 at = (i64)ids[pair] * rows + j;
    const float *from[1] = {h + (i64)pair * cols};
    float y[1] = {0};
    dots<1>(type, down, at * cols, from, cols, y);
    if (bias) y[0] += bias[at];
    sum = fused(weights[pair], y[0], sum);
  }
  if (THREAD % 32 == 0) dst[(i64)row * rows + j] = sum;
}
