// What the test kernels need of CUDA C++, for nvcc and for clang without the SDK.
#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#ifdef __clang__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define BLOCK_X __nvvm_read_ptx_sreg_ctaid_x()
#define BLOCK_Y __nvvm_read_ptx_sreg_ctaid_y()
struct uint4 { u32 x, y, z, w; };
#else
#define THREAD threadIdx.x
#define BLOCK_X blockIdx.x
#define BLOCK_Y blockIdx.y
#endif
#define INLINE static __device__ __attribute__((always_inline)) inline

INLINE u32 sharedAddress(const void *p) {
  u32 a;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
INLINE float fromBF16(u16 x) { u32 v = (u32)x << 16; float f; asm("mov.b32 %0, %1;" : "=f"(f) : "r"(v)); return f; }
INLINE u16 toBF16(float x) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
INLINE float shuffleXor(float x, u32 mask) {
  float r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(r) : "f"(x), "r"(mask));
  return r;
}
INLINE float inverseRoot(float x) { float r; asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
INLINE void copyAsync(u32 dst, const void *src) {
  u64 g;
  asm("cvta.to.global.u64 %0, %1;" : "=l"(g) : "l"(src));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(g) : "memory");
}
INLINE void commitAsync() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> INLINE void waitAsync() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
INLINE void barrierInit(u32 b, u32 count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(count) : "memory"); }
INLINE void barrierExpect(u32 b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
INLINE void barrierArrive(u32 b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
INLINE void barrierWait(u32 b, u32 parity) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}"
               ::"r"(b), "r"(parity) : "memory");
}
INLINE void tensorLoad(u32 dst, const void *map, int x, int y, u32 bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(dst), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
