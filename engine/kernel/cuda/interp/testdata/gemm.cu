// C[m][n] (f32) = A[m][k] B[n][k] (bf16): tiles of 64x64x32 by 4 warps, 3 stages of cp.async, ldmatrix, mma.sync.
#include "device.h"

const int PITCH = 40;           // values per row in shared memory: no bank conflicts
const int TILE = 64 * PITCH;    // values of one operand's tile
const int STAGES = 3;

INLINE void loadTile(u32 to, const u16 *from, int k) {
  for (int i = 0; i < 2; i++) {
    int piece = THREAD + i * 128, row = piece / 4, at = piece % 4 * 8;
    copyAsync(to + (row * PITCH + at) * 2, from + (u64)row * k + at);
  }
}

INLINE void loadMatrix(u32 *r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

INLINE void multiply(float *c, const u32 *a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(128) gemm(float *c, const u16 *a, const u16 *b, int n, int k) {
  __shared__ __attribute__((aligned(128))) u16 tiles[STAGES * 2 * TILE];
  u32 base = sharedAddress(tiles);
  const u16 *fromA = a + (u64)BLOCK_Y * 64 * k, *fromB = b + (u64)BLOCK_X * 64 * k;
  int steps = k / 32, lane = THREAD % 32, warp = THREAD / 32;
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps) {
      loadTile(base + s * TILE * 4, fromA + s * 32, k);
      loadTile(base + s * TILE * 4 + TILE * 2, fromB + s * 32, k);
    }
    commitAsync();
  }
  float sum[8][4] = {};
  for (int step = 0; step < steps; step++) {
    waitAsync<STAGES - 2>();
    __syncthreads();
    int next = step + STAGES - 1;
    if (next < steps) {
      u32 to = base + next % STAGES * TILE * 4;
      loadTile(to, fromA + next * 32, k);
      loadTile(to + TILE * 2, fromB + next * 32, k);
    }
    commitAsync();
    u32 at = base + step % STAGES * TILE * 4, bt = at + TILE * 2;
#pragma unroll
    for (int kk = 0; kk < 32; kk += 16) {
      u32 fragA[4];
      loadMatrix(fragA, at + ((warp * 16 + lane % 16) * PITCH + kk + lane / 16 * 8) * 2);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        u32 fragB[4];
        loadMatrix(fragB, bt + ((j * 16 + lane % 8 + lane / 16 * 8) * PITCH + kk + lane / 8 % 2 * 8) * 2);
        multiply(sum[j * 2], fragA, fragB[0], fragB[1]);
        multiply(sum[j * 2 + 1], fragA, fragB[2], fragB[3]);
      }
    }
  }
  float *to = c + ((u64)BLOCK_Y * 64 + warp * 16 + lane / 4) * n + BLOCK_X * 64 + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    to[j * 8] = sum[j][0];
    to[j * 8 + 1] = sum[j][1];
    to[j * 8 + 8 * n] = sum[j][2];
    to[j * 8 + 8 * n + 1] = sum[j][3];
  }
}
