// C[m][n] (f32) = A[m][k] B[n][k] (bf16): tiles of 64x64x64, 4 stages of TMA with the 128-byte swizzle,
// one producer warp, one warpgroup of wgmma; the epilogue leaves through shared memory and a bulk store.
#include "device.h"

const u32 TILE = 64 * 64 * 2;   // bytes of one operand's tile
const int STAGES = 4;

INLINE u64 descriptor(u32 address) {
  return (u64)(address >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

INLINE void multiply(float *c, u64 a, u64 b, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
               : "l"(a), "l"(b), "r"(accumulate));
}

INLINE void tensorStore(const void *map, int x, int y, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               ::"l"(map), "r"(x), "r"(y), "r"(from) : "memory");
}

extern __shared__ __attribute__((aligned(1024))) u8 dynamic[];  // the tiles and 64x64 f32 of result: 80 KiB

extern "C" __global__ void __launch_bounds__(160)
    wgemm(const void *mapA, const void *mapB, const void *mapC, int k) {
  float *result = (float *)(dynamic + STAGES * 2 * TILE);
  __shared__ __attribute__((aligned(8))) u64 full[STAGES], empty[STAGES];
  u32 base = sharedAddress(dynamic), filled = sharedAddress(full), emptied = sharedAddress(empty);
  int steps = k / 64, warp = THREAD / 32, lane = THREAD % 32;
  if (THREAD == 0) {
    for (int s = 0; s < STAGES; s++) {
      barrierInit(filled + s * 8, 1);
      barrierInit(emptied + s * 8, 128);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (warp == 4) {
    if (lane == 0) {
      for (int step = 0; step < steps; step++) {
        int s = step % STAGES;
        barrierWait(emptied + s * 8, (step / STAGES & 1) ^ 1);
        barrierExpect(filled + s * 8, 2 * TILE);
        tensorLoad(base + s * 2 * TILE, mapA, step * 64, BLOCK_Y * 64, filled + s * 8);
        tensorLoad(base + s * 2 * TILE + TILE, mapB, step * 64, BLOCK_X * 64, filled + s * 8);
      }
    }
    return;
  }
  float c[32];
#pragma unroll
  for (int i = 0; i < 32; i++) c[i] = 0;
  for (int step = 0; step < steps; step++) {
    int s = step % STAGES;
    barrierWait(filled + s * 8, step / STAGES & 1);
    u64 a = descriptor(base + s * 2 * TILE), b = descriptor(base + s * 2 * TILE + TILE);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int kk = 0; kk < 4; kk++) multiply(c, a + kk * 2, b + kk * 2, step + kk > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    barrierArrive(emptied + s * 8);
  }
  float *to = result + (warp * 16 + lane / 4) * 64 + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    to[j * 8] = c[j * 4];
    to[j * 8 + 1] = c[j * 4 + 1];
    to[j * 8 + 8 * 64] = c[j * 4 + 2];
    to[j * 8 + 8 * 64 + 1] = c[j * 4 + 3];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, 128;" ::: "memory");
  if (THREAD == 0) {
    tensorStore(mapC, BLOCK_X * 64, BLOCK_Y * 64, sharedAddress(result));
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
