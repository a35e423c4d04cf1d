// What kernels of matrix units need beside the plain ones: copies that run beside the threads, fragments, products.
#pragma once
#include "../../eager/kernels/common.h"

typedef unsigned char u8;

#ifdef __clang__
#define BLOCK_Z ((int)__nvvm_read_ptx_sreg_ctaid_z())
#else
#define BLOCK_Z ((int)blockIdx.z)
#endif

INLINE u32 sharedAddress(const void *p) {
  u32 a;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
// copyAsync brings 16 bytes to shared memory, zeros instead where there are none.
INLINE void copyAsync(u32 to, const void *from, bool there) {
  u64 g;
  int bytes = there ? 16 : 0;
  asm("cvta.to.global.u64 %0, %1;" : "=l"(g) : "l"(from));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(g), "r"(bytes) : "memory");
}
INLINE void commitAsync() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> INLINE void waitAsync() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// loadMatrix reads four matrices of 8 rows of 16 bytes; lanes 8i to 8i+7 have the addresses of matrix i.
INLINE void loadMatrix(u32 *r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
INLINE void loadTransposed(u32 *r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
// multiply adds the product of 16x16 and 16x8 values, float16 or bfloat16.
template <bool BRAIN> INLINE void multiply(float *c, const u32 *a, u32 b0, u32 b1) {
  if (BRAIN)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// multiplyTF adds the product of 16x8 and 8x8 values of 10 bits' fraction.
INLINE void multiplyTF(float *c, const u32 *a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
INLINE u32 toTF(float x) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }

// pairF16 and pairBF16 put two numbers into a word, the first one below.
INLINE u32 pairF16(float low, float high) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
INLINE u32 pairBF16(float low, float high) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
INLINE float power2(float x) { float r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }

// piece is where 16 bytes of a row of tiles lie: which eighth of 128 bytes depends on the row, so that eight
// rows at once meet no bank twice.
template <int ROW_BYTES> INLINE u32 piece(u32 tile, int row, int at) { return tile + row * ROW_BYTES + ((at ^ (row & 7)) << 4); }
