// RMSNorm of rows of d bf16 values: one block of 256 threads per row, 8 values per load.
#include "device.h"

extern "C" __global__ void __launch_bounds__(256) rmsnorm(u16 *out, const u16 *in, const float *weight, int d, float eps) {
  __shared__ float sums[8];
  const u16 *row = in + (u64)BLOCK_X * d;
  float sum = 0;
  for (int i = THREAD * 8; i < d; i += 256 * 8) {
    uint4 v = *(const uint4 *)(row + i);
    u32 w[4] = {v.x, v.y, v.z, v.w};
    for (int j = 0; j < 4; j++) {
      float a = fromBF16((u16)w[j]), b = fromBF16((u16)(w[j] >> 16));
      sum += a * a + b * b;
    }
  }
  for (u32 m = 16; m > 0; m >>= 1) sum += shuffleXor(sum, m);
  if (THREAD % 32 == 0) sums[THREAD / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 8; i++) sum += sums[i];
  float scale = inverseRoot(sum / (float)d + eps);
  u16 *to = out + (u64)BLOCK_X * d;
  for (int i = THREAD; i < d; i += 256) to[i] = toBF16(fromBF16(row[i]) * scale * weight[i]);
}
