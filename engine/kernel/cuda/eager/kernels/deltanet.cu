// Gated DeltaNet, token by token: a short convolution over the channels, then a recurrence for each head
// whose state a block keeps in shared memory. A slot is [layers][taps-1][channels], oldest input first,
// and [layers][heads][dk][dv], bfloat16 where they are brain. spans are {first row, rows, slot, saves, where the saves' slots begin}.
#include "states.h"

enum { SpanWords = 5, TapsMax = 8 };

// input is what channel ch was given `back` tokens before the span's first row plus i; old inputs come from the state.
INLINE float input(const float *qkv, const float *conv, int row, int i, int ch, int channels, int taps) {
  return i >= 0 ? qkv[(i64)(row + i) * channels + ch] : conv[(i64)(taps - 1 + i) * channels + ch];
}

// convolve has a thread per row and channel. rows are {index of the span, row within it}.
KERNEL(128) convolve(float *dst, const float *qkv, const float *conv, const float *w, const int *rows, const int *spans,
                     i64 slotFloats, int channels, int taps) {
  int ch = BLOCK_X * 128 + THREAD, row = BLOCK_Y;
  if (ch >= channels) return;
  const int *span = spans + rows[2 * row] * SpanWords;
  int i = rows[2 * row + 1];
  const float *state = conv + (i64)span[2] * slotFloats;
  float sum = 0;
  ROLLED for (int t = 0; t < taps; t++)
    sum = fused(input(qkv, state, span[0], i - (taps - 1) + t, ch, channels, taps), w[ch * taps + t], sum);
  dst[(i64)row * channels + ch] = silu(sum);
}

// keepInputs has a thread per span and channel, after convolve: the last inputs go to the slots.
KERNEL(128) keepInputs(const float *qkv, float *conv, const int *spans, const int *saves, i64 slotFloats, int channels, int taps) {
  int ch = BLOCK_X * 128 + THREAD;
  if (ch >= channels) return;
  const int *span = spans + BLOCK_Y * SpanWords;
  float *state = conv + (i64)span[2] * slotFloats;
  ROLLED for (int s = 0; s <= span[3]; s++) { // the state itself is last: the others read it
    int rows = s < span[3] ? s + 1 : span[1];
    float *to = s < span[3] ? conv + (i64)saves[span[4] + s] * slotFloats : state;
    ROLLED for (int t = 0; t < taps - 1; t++)
      to[(i64)t * channels + ch] = input(qkv, state, span[0], rows - (taps - 1) + t, ch, channels, taps);
  }
}

// recur has a block of d threads per head and span; thread j has column j of the state.
KERNEL(256) recur(float *dst, const float *mixed, const float *z, const float *beta, const float *alpha, const float *a,
                  const float *bias, const float *norm, float *states, const int *spans, const int *saves, i64 slotFloats,
                  int channels, int kHeads, int vHeads, int d, int tiled, int brain, float eps) {
  extern __shared__ float memory[];
  float *m = memory, *q = m + d * d, *k = q + d, *scratch = k + d;
  int head = BLOCK_X, j = THREAD, kHead = tiled ? head % kHeads : head / (vHeads / kHeads);
  const int *span = spans + BLOCK_Y * SpanWords;
  i64 own = (i64)head * d * d + j, state = stateIn(span[2], slotFloats, brain) + own;
  ROLLED for (int i = 0; i < d; i++) keptAt<1, 1>(m + i * d + j, states, state + i * d, brain);
  ROLLED for (int t = 0; t < span[1]; t++) {
    i64 row = span[0] + t;
    const float *in = mixed + row * channels;
    float qj = in[kHead * d + j], kj = in[(kHeads + kHead) * d + j], vj = in[(2 * kHeads + head) * d + j];
    float qScale = inverseRoot(blockSum(qj * qj, scratch) + eps) * inverseRoot((float)d);
    float kScale = inverseRoot(blockSum(kj * kj, scratch + 32) + eps);
    q[j] = qj * qScale, k[j] = kj * kScale;
    float x = alpha[row * vHeads + head] + bias[head];
    float gate = exponential(a[head] * (x <= 20.0f ? logOnePlus(exponential(x)) : x));
    float by = sigmoid(beta[row * vHeads + head]);
    __syncthreads();
    float read = 0, out = 0;
    ROLLED for (int i = 0; i < d; i++) {
      float s = gate * m[i * d + j];
      m[i * d + j] = s;
      read = fused(k[i], s, read);
    }
    float delta = by * (vj - read);
    ROLLED for (int i = 0; i < d; i++) {
      float s = fused(k[i], delta, m[i * d + j]);
      m[i * d + j] = s;
      out = fused(q[i], s, out);
    }
    float scale = inverseRoot(blockSum(out * out, scratch + 64) * inverse((float)d) + eps);
    i64 at = (row * vHeads + head) * d + j;
    dst[at] = out * scale * norm[j] * silu(z[at]);
    if (t < span[3]) {
      i64 saved = stateIn(saves[span[4] + t], slotFloats, brain) + own;
      ROLLED for (int i = 0; i < d; i++) keepAt<1, 1>(m + i * d + j, states, saved + i * d, brain);
    }
  }
  ROLLED for (int i = 0; i < d; i++) keepAt<1, 1>(m + i * d + j, states, state + i * d, brain);
}
