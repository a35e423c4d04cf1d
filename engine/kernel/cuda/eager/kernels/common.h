// What the kernels need of CUDA C++, for nvcc and for clang without the SDK. All sums run in a
// fixed order that depends on neither the number of rows nor the grid.
#pragma once
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#ifdef __clang__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))
#define THREAD ((int)__nvvm_read_ptx_sreg_tid_x())
#define THREADS ((int)__nvvm_read_ptx_sreg_ntid_x())
#define BLOCK_X ((int)__nvvm_read_ptx_sreg_ctaid_x())
#define BLOCK_Y ((int)__nvvm_read_ptx_sreg_ctaid_y())
struct alignas(16) uint4 { u32 x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
#else
#define THREAD ((int)threadIdx.x)
#define THREADS ((int)blockDim.x)
#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#endif
#define INLINE static __device__ __attribute__((always_inline)) inline
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
// ROOMY is a kernel that may have as many registers as leave room for some blocks in a multiprocessor.
#ifdef __clang__
#define ROOMY(threads, blocks) extern "C" __global__ void __attribute__((launch_bounds(threads, blocks)))
#else
#define ROOMY(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#endif
#define ROLLED _Pragma("unroll 1")
#define UNROLLED _Pragma("unroll")

// The kinds of weights, as the host numbers them.
// Q8_0 and Q4_K are blocks of a model file: 32 codes of 8 bits with a scale, and 256 of 4 bits with scales and minima of 32 each.
// E4M3 is codes of 8 bits, whose scales lie before the matrix.
enum { F32 = 0, F16 = 1, BF16 = 2, Q8_0 = 3, Q4_K = 4, E4M3 = 5 };
enum { BlockQ8 = 34, BlockQ4 = 144 };

INLINE float fromBits(u32 x) { float f; asm("mov.b32 %0, %1;" : "=f"(f) : "r"(x)); return f; }
INLINE float infinity() { return fromBits(0x7f800000); }
INLINE float fromF16(u16 x) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x)); return f; }
INLINE u16 toF16(float x) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
INLINE float fromBF16(u16 x) { return fromBits((u32)x << 16); }
INLINE float fused(float a, float b, float c) { float r; asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r; }
INLINE float inverse(float x) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
// inverseRoot is 1/sqrt(x), with a step of Newton's method after the approximation.
INLINE float inverseRoot(float x) {
  float r;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return x > 0 && x < infinity() ? r * fused(-0.5f * x * r, r, 1.5f) : r;
}
INLINE float larger(float a, float b) { float r; asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
INLINE float smaller(float a, float b) { float r; asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
INLINE int least(int a, int b) { return a < b ? a : b; }
INLINE int most(int a, int b) { return a > b ? a : b; }
INLINE float shuffleXor(float x, u32 mask) {
  float r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(r) : "f"(x), "r"(mask));
  return r;
}
INLINE int shuffleXorInt(int x, u32 mask) {
  int r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(r) : "r"(x), "r"(mask));
  return r;
}

// exponential is e^x; what rounding x/ln 2 lost is put back, so that large x are as exact as small ones.
INLINE float exponential(float x) {
  const float high = 1.44269504f, low = 1.92596299e-8f, ln2 = 0.693147182f;
  float t = x * high, p;
  asm("ex2.approx.f32 %0, %1;" : "=f"(p) : "f"(t));
  float lost = fused(x, low, fused(x, high, -t));
  return t > -125.0f && t < 127.0f ? fused(p, lost * ln2, p) : p;
}
INLINE float sigmoid(float x) { return inverse(1.0f + exponential(-x)); }
INLINE float silu(float x) { return x * inverse(1.0f + exponential(-x)); }

// logOnePlus is log(1 + x) of x >= 0.
INLINE float logOnePlus(float x) {
  if (x < 0.01f) return x * fused(x, fused(x, fused(x, -0.25f, 0.333333343f), -0.5f), 1.0f);
  float u = 1.0f + x, l;
  asm("lg2.approx.f32 %0, %1;" : "=f"(l) : "f"(u));
  return fused(x - (u - 1.0f), inverse(u), l * 0.693147182f);
}

// warpSum leaves the sum over the lanes in all of them.
INLINE float warpSum(float x) {
  UNROLLED for (u32 m = 16; m > 0; m >>= 1) x += shuffleXor(x, m);
  return x;
}
INLINE float warpMax(float x) {
  UNROLLED for (u32 m = 16; m > 0; m >>= 1) x = larger(x, shuffleXor(x, m));
  return x;
}
// blockSum is the sum over a block of up to 32 whole warps. scratch has 32 words that nobody has used since
// the last barrier but one.
INLINE float blockSum(float x, float *scratch) {
  x = warpSum(x);
  if (THREAD % 32 == 0) scratch[THREAD / 32] = x;
  __syncthreads();
  float sum = 0;
  ROLLED for (int i = 0; i < THREADS / 32; i++) sum += scratch[i];
  return sum;
}

// Range is what codes of 4 bits mean: scale·code - least.
struct Range { float scale, least; };

// rangeOf is that of the j-th 32 of a block's values. head is its first 16 bytes.
INLINE Range rangeOf(uint4 head, int j) {
  int shift = j % 4 * 8;
  u32 a = head.y >> shift, b = head.z >> shift, c = head.w >> shift;
  u32 scale = j < 4 ? a & 63 : (c & 15) | (a >> 2 & 48), least = j < 4 ? b & 63 : (c >> 4 & 15) | (b >> 2 & 48);
  Range r = {fromF16((u16)head.x) * (float)scale, fromF16((u16)(head.x >> 16)) * (float)least};
  return r;
}

// scaleOf is what 2^-8 of a value of E4M3 is multiplied by: 128 values share a scale, and the first 128 have the last one.
INLINE float scaleOf(const void *w, i64 i) { return ((const float *)w)[-1 - (i >> 7)] * 256.0f; }
// halvesOf are codes of E4M3 in the upper bytes of each 16 bits as float16, of 2^-8 times their value. The code of NaN, which
// no matrix has, becomes a number.
INLINE u32 halvesOf(u32 codes) { return (codes & 0x80008000u) | (codes & 0x7f007f00u) >> 1; }
// valuesOf are 2^-8 of what eight codes mean.
INLINE void valuesOf(u64 codes, float out[8]) {
  UNROLLED for (int j = 0; j < 2; j++) {
    u32 four = (u32)(codes >> 32 * j), odd = halvesOf(four), even = halvesOf(four << 8);
    out[4 * j] = fromF16((u16)even), out[4 * j + 1] = fromF16((u16)odd);
    out[4 * j + 2] = fromF16((u16)(even >> 16)), out[4 * j + 3] = fromF16((u16)(odd >> 16));
  }
}

// weightAt is one value of a matrix.
INLINE float weightAt(int type, const void *w, i64 i) {
  if (type == F32) return ((const float *)w)[i];
  if (type == Q8_0) {
    const char *block = (const char *)w + i / 32 * BlockQ8;
    return fromF16(*(const u16 *)block) * (float)((const i8 *)block)[2 + i % 32];
  }
  if (type == Q4_K) {
    const char *block = (const char *)w + i / 256 * BlockQ4;
    int in = (int)(i % 256);
    Range r = rangeOf(*(const uint4 *)block, in / 32);
    int codes = ((const unsigned char *)block)[16 + in / 64 * 32 + in % 32];
    return fused(r.scale, (float)(codes >> in / 32 % 2 * 4 & 15), -r.least);
  }
  if (type == E4M3) return fromF16((u16)halvesOf((u32)((const unsigned char *)w)[i] << 8)) * scaleOf(w, i);
  u16 v = ((const u16 *)w)[i];
  return type == F16 ? fromF16(v) : fromBF16(v);
}
// weights8 are eight, at a multiple of eight.
INLINE void weights8(int type, const void *w, i64 i, float out[8]) {
  if (type == F32) {
    const float4 *p = (const float4 *)((const float *)w + i);
    float4 a = p[0], b = p[1];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w, out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
    return;
  }
  if (type == Q8_0) {
    const u16 *block = (const u16 *)((const char *)w + i / 32 * BlockQ8), *codes = block + 1 + i % 32 / 2;
    float scale = fromF16(block[0]);
    UNROLLED for (int j = 0; j < 4; j++) {
      int two = codes[j];
      out[2 * j] = scale * (float)(two << 24 >> 24), out[2 * j + 1] = scale * (float)(two << 16 >> 24);
    }
    return;
  }
  if (type == Q4_K) {
    const char *block = (const char *)w + i / 256 * BlockQ4;
    int in = (int)(i % 256), shift = in / 32 % 2 * 4;
    Range r = rangeOf(*(const uint4 *)block, in / 32);
    const u32 *codes = (const u32 *)(block + 16 + in / 64 * 32 + in % 32);
    UNROLLED for (int j = 0; j < 2; j++) {
      u32 four = codes[j] >> shift;
      UNROLLED for (int k = 0; k < 4; k++) out[4 * j + k] = fused(r.scale, (float)(four >> 8 * k & 15), -r.least);
    }
    return;
  }
  if (type == E4M3) {
    float scale = scaleOf(w, i);
    valuesOf(*(const u64 *)((const char *)w + i), out);
    UNROLLED for (int j = 0; j < 8; j++) out[j] *= scale;
    return;
  }
  uint4 v = *(const uint4 *)((const u16 *)w + i);
  u32 words[4] = {v.x, v.y, v.z, v.w};
  if (type == F16) {
    UNROLLED for (int j = 0; j < 4; j++) out[2 * j] = fromF16((u16)words[j]), out[2 * j + 1] = fromF16((u16)(words[j] >> 16));
  } else {
    UNROLLED for (int j = 0; j < 4; j++) out[2 * j] = fromBits(words[j] << 16), out[2 * j + 1] = fromBits(words[j] & 0xffff0000u);
  }
}

// dots adds the products of a row of a matrix, from value `at` on, with ROWS rows of x. Lane l
// takes every 32nd eight of values, or every 32nd value where rows do not end at an eight.
template <int TYPE, int ROWS> INLINE void dotsOf(const void *w, i64 at, const float *const x[ROWS], int cols, float sum[ROWS]) {
  int lane = THREAD % 32;
  if (TYPE <= BF16 && cols % 8 != 0) {
    ROLLED for (int i = lane; i < cols; i += 32) {
      float a = weightAt(TYPE, w, at + i);
      UNROLLED for (int r = 0; r < ROWS; r++) sum[r] = fused(a, x[r][i], sum[r]);
    }
    return;
  }
  ROLLED for (int i = lane * 8; i < cols; i += 256) {
    float a[8];
    weights8(TYPE, w, at + i, a);
    UNROLLED for (int r = 0; r < ROWS; r++) {
      const float4 *p = (const float4 *)(x[r] + i);
      float4 b = p[0], c = p[1];
      float s = sum[r];
      s = fused(a[0], b.x, s), s = fused(a[1], b.y, s), s = fused(a[2], b.z, s), s = fused(a[3], b.w, s);
      s = fused(a[4], c.x, s), s = fused(a[5], c.y, s), s = fused(a[6], c.z, s), s = fused(a[7], c.w, s);
      sum[r] = s;
    }
  }
}
template <int ROWS> INLINE void dots(int type, const void *w, i64 at, const float *const x[ROWS], int cols, float sum[ROWS]) {
  switch (type) {
  case F32: dotsOf<F32, ROWS>(w, at, x, cols, sum); break;
  case F16: dotsOf<F16, ROWS>(w, at, x, cols, sum); break;
  case BF16: dotsOf<BF16, ROWS>(w, at, x, cols, sum); break;
  case Q8_0: dotsOf<Q8_0, ROWS>(w, at, x, cols, sum); break;
  case Q4_K: dotsOf<Q4_K, ROWS>(w, at, x, cols, sum); break;
  case E4M3: dotsOf<E4M3, ROWS>(w, at, x, cols, sum); break;
  default: __builtin_unreachable();
  }
  UNROLLED for (int r = 0; r < ROWS; r++) sum[r] = warpSum(sum[r]);
}
