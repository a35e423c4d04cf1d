// States of DeltaNet in memory.
#pragma once
#include "common.h"

// toBF16 rounds to the nearest, to an even one of two.
INLINE u16 toBF16(float x) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }

// States lie in slots that are slotFloats words apart, as float32 or, where they are brain, as bfloat16. stateIn is where one
// begins, in values; keptAt reads values from memory and keepAt rounds them to it, each STRIDE behind the one before.
INLINE i64 stateIn(int slot, i64 slotFloats, int brain) { return (i64)slot * slotFloats << brain; }
template <int N, int STRIDE> INLINE void keptAt(float *m, const float *states, i64 at, int brain) {
  if (brain) UNROLLED for (int i = 0; i < N; i++) m[i] = fromBF16(((const u16 *)states)[at + i * STRIDE]);
  else UNROLLED for (int i = 0; i < N; i++) m[i] = states[at + i * STRIDE];
}
template <int N, int STRIDE> INLINE void keepAt(const float *m, float *states, i64 at, int brain) {
  if (brain) UNROLLED for (int i = 0; i < N; i++) ((u16 *)states)[at + i * STRIDE] = toBF16(m[i]);
  else UNROLLED for (int i = 0; i < N; i++) states[at + i * STRIDE] = m[i];
}
