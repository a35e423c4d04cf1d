// What attention.cpp and mixture.cpp share: the matrix units (AMX) of an x86 CPU, and vectors of 16 numbers.
//
// A tile is 16 rows of 64 bytes; a product of two tiles adds A [16, 32] B [32, 16] to C [16, 16], where A and B are bfloat16, C is
// float32, and a row of B holds two rows side by side ("paired"), number by number.

#pragma once

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr int TILE = 16;   // rows of a tile, and lanes
constexpr int BLOCK = 32;  // numbers of a row of A, and rows and columns that are computed together
constexpr int PART = TILE * BLOCK;  // numbers of a tile of A or B
constexpr int AREA = BLOCK * BLOCK;  // numbers of four tiles of C: rows 0-15 of columns 0-15 and 16-31, then rows 16-31
constexpr float LOG2E = 1.44269504088896341f;

typedef uint16_t bf16;

// What is at an address has to be in memory from here on: compilers that make tile instructions of assembler do not know
// what these read and write.
inline void barrier(const void *at) { asm volatile("" : : "r"(at) : "memory"); }

struct alignas(64) Configuration {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t columns[16] = {};
    uint8_t rows[16] = {};
};

// Tiles configures the tile registers, and gives them back as they were: others configure them once and rely on it.
struct Tiles {
    Configuration before;
    Tiles() {
        Configuration c;
        for (int i = 0; i < 8; i++) c.columns[i] = 64, c.rows[i] = TILE;
        _tile_storeconfig(&before);
        barrier(&c);
        _tile_loadconfig(&c);
    }
    ~Tiles() {
        barrier(&before);
        if (before.palette) _tile_loadconfig(&before);
        else _tile_release();
    }
};

// Memory that grows and stays: numbers that begin at a line of the cache.
struct Memory {
    char *at = nullptr;
    size_t size = 0;
    template <typename T> T *get(size_t count) {
        size_t want = (count * sizeof(T) + 63) / 64 * 64;
        if (want > size) {
            free(at);
            at = static_cast<char *>(aligned_alloc(64, want));
            if (!at) abort();
            size = want;
        }
        return reinterpret_cast<T *>(at);
    }
    ~Memory() { free(at); }
};

// 2^x; below 2^-126 it is nothing that counts.
inline __m512 exp2(__m512 x) {
    x = _mm512_max_ps(x, _mm512_set1_ps(-126));
    __m512 whole = _mm512_roundscale_ps(x, 8), r = _mm512_sub_ps(x, whole);
    __m512 p = _mm512_set1_ps(1.3333558e-3f);  // the series of e^(r log 2): the term left out is below 3e-6
    for (float term : {9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.f}) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(term));
    return _mm512_scalef_ps(p, whole);
}

// Turns 16 rows of 16 numbers of four bytes around.
inline void transpose(__m512i r[TILE]) {
    __m512i t[TILE];
    for (int i = 0; i < TILE; i += 2) t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    for (int i = 0; i < TILE; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) {
            t[8 * j + i] = _mm512_shuffle_i32x4(r[8 * j + i], r[8 * j + 4 + i], 0x88);
            t[8 * j + 4 + i] = _mm512_shuffle_i32x4(r[8 * j + i], r[8 * j + 4 + i], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    }
}

// The B, or the transpose of A, of 16 rows of 32 numbers: row r has numbers 2r and 2r+1 of each.
inline void turned(bf16 *to, const bf16 *from, int64_t stride) {
    __m512i r[TILE];
    for (int j = 0; j < TILE; j++) r[j] = _mm512_loadu_si512(from + j * stride);
    transpose(r);
    for (int j = 0; j < TILE; j++) _mm512_store_si512(to + j * BLOCK, r[j]);
}

// Numbers of one vector beside those of another (the first 16 of each, the last 16), and the halves of one vector beside each other.
const __m512i LOW = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                     39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
const __m512i HIGH = _mm512_add_epi16(LOW, _mm512_set1_epi16(16));
const __m512i ZIP = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                     23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

// The B, in two tiles of 16 columns, of a product that sums over 32 rows of 32 numbers.
inline void paired(bf16 *to, const bf16 *from, int64_t stride) {
    for (int i = 0; i < TILE; i++, from += 2 * stride) {
        __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + stride);
        _mm512_store_si512(to + i * BLOCK, _mm512_permutex2var_epi16(a, LOW, b));
        _mm512_store_si512(to + PART + i * BLOCK, _mm512_permutex2var_epi16(a, HIGH, b));
    }
}

// The A, in two tiles of 16 of the numbers, of a product of the transpose of 32 rows of 32 numbers: a row has one number of all 32.
inline void across(bf16 *to, const bf16 *from, int64_t stride) {
    alignas(64) bf16 pairs[AREA];
    paired(pairs, from, stride);
    turned(to, pairs, BLOCK), turned(to + PART, pairs + PART, BLOCK);
}

// Whether the machine lets this process use its matrix units.
inline bool permitted() {
    constexpr int REQUEST = 0x1023, TILE_DATA = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

}  // namespace
