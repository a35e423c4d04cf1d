// Operations on rows of activations: one thread per value, but for the norm.
#include "common.h"

#define EACH(i, n) u32 i = (u32)BLOCK_X * 256 + THREAD; if (i >= (n)) return

KERNEL(256) addBias(float *x, const float *bias, u32 n, u32 d) {
  EACH(i, n);
  x[i] += bias[i % d];
}

KERNEL(256) siluMul(float *dst, const float *gate, const float *up, u32 n) {
  EACH(i, n);
  dst[i] = silu(gate[i]) * up[i];
}

KERNEL(256) geluMul(float *dst, const float *gate, const float *up, u32 n) {
  EACH(i, n);
  float x = gate[i], inner = 0.797884561f * fused(0.044715f * x * x, x, x);
  // 1 + tanh(y) is 2·sigmoid(2y).
  dst[i] = x * sigmoid(2.0f * inner) * up[i];
}

KERNEL(256) sigmoidMul(float *x, const float *gate, u32 n) {
  EACH(i, n);
  x[i] *= sigmoid(gate[i]);
}

KERNEL(256) addScaled(float *x, const float *y, const float *gate, u32 n, u32 d) {
  EACH(i, n);
  x[i] = fused(sigmoid(gate[i / d]), y[i], x[i]);
}

KERNEL(256) splitHeads(float *a, float *b, const float *x, u32 n, u32 d) {
  EACH(i, n);
  u32 head = i / d, at = i % d;
  a[i] = x[(u64)2 * head * d + at];
  b[i] = x[((u64)2 * head + 1) * d + at];
}

KERNEL(256) gatherRows(float *dst, const float *src, const int *rows, u32 n, u32 d) {
  EACH(i, n);
  dst[i] = src[(i64)rows[i / d] * d + i % d];
}

KERNEL(256) embed(float *dst, const void *table, const int *ids, u32 n, u32 d, int type) {
  EACH(i, n);
  dst[i] = weightAt(type, table, (i64)ids[i / d] * d + i % d);
}

// rmsNorm has a block per row. With delta, which may be null, x becomes x + delta first.
KERNEL(256) rmsNorm(float *dst, float *x, const float *delta, const float *w, int d, float eps) {
  __shared__ float scratch[32];
  float *row = x + (i64)BLOCK_X * d, *to = dst + (i64)BLOCK_X * d, sum = 0;
  ROLLED for (int i = THREAD; i < d; i += THREADS) {
    float v = row[i];
    if (delta) row[i] = v = v + delta[(i64)BLOCK_X * d + i];
    sum = fused(v, v, sum);
  }
  float scale = inverseRoot(blockSum(sum, scratch) / (float)d + eps);
  ROLLED for (int i = THREAD; i < d; i += THREADS) to[i] = row[i] * scale * w[i];
}

// rope has a thread per pair. angles are rows of cos and sin.
KERNEL(256) rope(float *x, const float *angles, u32 n, u32 heads, u32 d, u32 half, int neox) {
  EACH(i, n);
  u32 head = i / half;
  u32 j = i % half, a = neox ? j : 2 * j, b = neox ? j + half : 2 * j + 1;
  const float *row = angles + (u64)(head / heads) * 2 * half;
  float cos = row[j], sin = row[half + j], u = x[head * d + a], v = x[head * d + b];
  x[head * d + a] = u * cos - v * sin;
  x[head * d + b] = u * sin + v * cos;
}
