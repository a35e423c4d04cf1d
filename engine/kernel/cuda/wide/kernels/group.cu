// Products of many rows with matrices on the matrix units of compute capability 9.0: tiles of 128 rows by 256 outputs by 64 of
// the depth. One warp brings tiles with tensor copies, four stages ahead; two groups of four warps multiply 64 rows each. A block
// takes one tile after another: the copies of the next begin while the sums of the last are written.
#include "wide.h"

enum { TileRows = 128, TileOuts = 256, Depth = 64, Stages = 4, Threads = 384 };
enum { RowsBytes = TileRows * Depth * 2, OutsBytes = TileOuts * Depth * 2, StageBytes = RowsBytes + OutsBytes, Pitch = 68 };

#ifdef __clang__
#define BLOCKS ((int)__nvvm_read_ptx_sreg_nctaid_x())
#else
#define BLOCKS ((int)gridDim.x)
#endif

INLINE void barrierInit(u32 b, u32 count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(count) : "memory"); }
INLINE void barrierExpect(u32 b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
INLINE void barrierArrive(u32 b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
INLINE void barrierWait(u32 b, u32 parity) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}"
               ::"r"(b), "r"(parity) : "memory");
}
INLINE void tensorLoad(u32 dst, const void *map, int x, int y, u32 bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(dst), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}

// descriptor is a matrix of rows of 128 bytes, with the pattern of tensor copies.
INLINE u64 descriptor(u32 address) { return (u64)(address >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62; }

#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define MULTIPLY(type)                                                                                                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                                                 \
               "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {"                                              \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
               "}, %128, %129, p, 1, 1, 0, 0;\n}"                                                                             \
               : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)       \
               : "l"(a), "l"(b), "r"(add))

// multiplyGroup adds the product of 64x16 and 16x256 values of shared memory.
template <bool BRAIN> INLINE void multiplyGroup(float c[128], u64 a, u64 b, int add) {
  if (BRAIN) MULTIPLY("bf16");
  else MULTIPLY("f16");
}

// Work is what the blocks share out: tiles of rows, for each so many columns of tiles.
struct Work {
  const int *tiles; // {expert, first row, rows} of each, or none
  int rowTiles, n, outs;
};

// Tile is one piece of it.
struct Tile { int expert, first, count, out; };

// tileOf is the i-th tile; EACH outputs of it are written.
template <int EACH> INLINE Tile tileOf(const Work &w, int i) {
  int row = i % w.rowTiles;
  Tile t = {0, row * TileRows, least(TileRows, w.n - row * TileRows), i / w.rowTiles * EACH};
  if (w.tiles) t.expert = w.tiles[3 * row], t.first = w.tiles[3 * row + 1], t.count = w.tiles[3 * row + 2];
  return t;
}

extern __shared__ __attribute__((aligned(1024))) u8 stages[]; // and behind them 16 rows of 64 sums for each of 8 warps

// bring is the loop of the thread that copies. Both halves of a tile's outputs may come from matrices of their own.
template <int EACH> INLINE void bring(const Work &w, int all, int steps, const void *rows, const void *outs, const void *outs2, u32 full,
                                      u32 empty) {
  u32 base = sharedAddress(stages);
  int s = 0, round = 0;
  ROLLED for (int i = BLOCK_X; i < all; i += BLOCKS) {
    Tile t = tileOf<EACH>(w, i);
    if (t.count <= 0) continue;
    int out = t.expert * w.outs + t.out;
    ROLLED for (int step = 0; step < steps; step++) {
      u32 to = base + s * StageBytes, bar = full + s * 8;
      barrierWait(empty + s * 8, round ^ 1);
      barrierExpect(bar, StageBytes);
      tensorLoad(to, rows, step * Depth, t.first, bar);
      tensorLoad(to + RowsBytes, outs, step * Depth, out, bar);
      tensorLoad(to + RowsBytes + OutsBytes / 2, outs2, step * Depth, out + (EACH == TileOuts ? TileOuts / 2 : 0), bar);
      if (++s == Stages) s = 0, round ^= 1;
    }
  }
}

// sums multiplies one tile. A stage is free for the next copies once the multiplication after it was issued.
template <bool BRAIN> INLINE void sums(float c[128], int steps, int &s, int &round, u32 full, u32 empty) {
  u32 base = sharedAddress(stages) + THREAD / 128 * (RowsBytes / 2);
  int before = 0;
  ROLLED for (int step = 0; step < steps; step++) {
    u64 a = descriptor(base + s * StageBytes), b = descriptor(sharedAddress(stages) + s * StageBytes + RowsBytes);
    barrierWait(full + s * 8, round);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    UNROLLED for (int kk = 0; kk < Depth / 16; kk++) multiplyGroup<BRAIN>(c, a + kk * 2, b + kk * 2, step + kk > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (step > 0 && THREAD % 32 == 0) barrierArrive(empty + before * 8);
    before = s;
    if (++s == Stages) s = 0, round ^= 1;
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  if (THREAD % 32 == 0) barrierArrive(empty + before * 8);
}

// part leaves 32 columns of each half of a warp's 16 rows in shared memory.
INLINE void part(float *own, const float c[128], int chunk) {
  int lane = THREAD % 32;
  UNROLLED for (int j = 0; j < 8; j++)
    UNROLLED for (int v = 0; v < 4; v++)
      own[(lane / 4 + v / 2 * 8) * Pitch + j * 8 + lane % 4 * 2 + v % 2] = c[(j / 4 * 16 + chunk * 4 + j % 4) * 4 + v];
}

// Gates is what becomes of gate and up; without, both halves are outputs.
struct Gates {
  const float *gateBias, *upBias;
  float limit, alpha;
};

// write takes 16 rows of a tile to device memory: 64 sums of each, of which two are this lane's.
template <bool TWO> INLINE void write(float *dst, const float *own, const float *factors, const Tile &t, int outs, int chunk, const Gates &g) {
  int lane = THREAD % 32, first = THREAD / 32 * 16, out = t.out + chunk * 32 + lane;
  float moreG = 0, moreU = 0;
  if (TWO && g.gateBias && out < outs) moreG = g.gateBias[(i64)t.expert * outs + out], moreU = g.upBias[(i64)t.expert * outs + out];
  ROLLED for (int r = 0; r < least(16, t.count - first); r++) {
    i64 at = t.first + first + r;
    float factor = factors[at], a = own[r * Pitch + lane] * factor, b = own[r * Pitch + 32 + lane] * factor;
    float *to = dst + at * outs;
    if (!TWO) {
      if (out < outs) to[out] = a;
      if (out + TileOuts / 2 < outs) to[out + TileOuts / 2] = b;
    } else if (out < outs) {
      a += moreG, b += moreU;
      if (g.limit != 0) {
        a = smaller(a, g.limit), b = larger(-g.limit, smaller(b, g.limit));
        to[out] = (b + 1.0f) * a * inverse(1.0f + exponential(-g.alpha * a));
      } else {
        to[out] = silu(a) * b;
      }
    }
  }
}

template <bool BRAIN, bool TWO>
INLINE void multiplyTiles(float *dst, const void *rows, const float *factors, const Work &w, const void *outs, const void *outs2,
                          const Gates &g, int k) {
  enum { Each = TWO ? TileOuts / 2 : TileOuts };
  __shared__ __attribute__((aligned(8))) u64 bars[2 * Stages];
  u32 full = sharedAddress(bars), empty = full + 8 * Stages;
  int steps = (k + Depth - 1) / Depth, all = w.rowTiles * ((w.outs + Each - 1) / Each), warp = THREAD / 32;
  if (THREAD == 0) {
    ROLLED for (int s = 0; s < Stages; s++) barrierInit(full + s * 8, 1), barrierInit(empty + s * 8, 8);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (warp >= 8) {
    if (THREAD == 256) bring<Each>(w, all, steps, rows, outs, outs2, full, empty);
    return;
  }
  float *own = (float *)(stages + Stages * StageBytes) + warp * 16 * Pitch;
  int s = 0, round = 0;
  ROLLED for (int i = BLOCK_X; i < all; i += BLOCKS) {
    Tile t = tileOf<Each>(w, i);
    if (t.count <= 0) continue;
    float c[128];
    UNROLLED for (int v = 0; v < 128; v++) c[v] = 0;
    sums<BRAIN>(c, steps, s, round, full, empty);
    ROLLED for (int chunk = 0; chunk < 4; chunk++) {
      UNROLLED for (int i = 0; i < 4; i++) // registers have no index
        if (i == chunk) part(own, c, i);
      asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
      write<TWO>(dst, own, factors, t, w.outs, chunk, g);
      asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    }
  }
}

#define PRODUCT(name, brain)                                                                                                  \
  KERNEL(Threads) name(float *dst, const void *rows, const float *factors, const int *tiles, const void *w, int rowTiles, int n, \
                       int outs, int k) {                                                                                     \
    Work work = {tiles, rowTiles, n, outs};                                                                                   \
    Gates none = {0, 0, 0, 0};                                                                                                \
    multiplyTiles<brain, false>(dst, rows, factors, work, w, w, none, k);                                                     \
  }
#define GATED(name, brain)                                                                                                    \
  KERNEL(Threads) name(float *dst, const void *rows, const float *factors, const int *tiles, const void *gate, const void *up, \
                       const float *gateBias, const float *upBias, int rowTiles, int outs, int k, float limit, float alpha) { \
    Work work = {tiles, rowTiles, 0, outs};                                                                                   \
    Gates gates = {gateBias, upBias, limit, alpha};                                                                           \
    multiplyTiles<brain, true>(dst, rows, factors, work, gate, up, gates, k);                                                 \
  }
PRODUCT(productGroupF16, false)
PRODUCT(productGroupBF16, true)
GATED(gatedGroupF16, false)
GATED(gatedGroupBF16, true)
