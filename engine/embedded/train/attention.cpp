// Causal attention over packed documents and its derivatives, on the matrix units (AMX) of an x86 CPU. attention.py compiles
// and calls it. Heads are 32 wide, numbers bfloat16, sums float32; queries of several heads share a head of keys and values.
//
// Scores are kept with a key a row and a query a lane, so that the largest score and the sum of a query are found without
// adding across lanes.
//
// Derivatives as in FlashAttention-2 (Dao 2023, algorithm 2): with P the probabilities, D = rowsum(dO * O),
//     dV = P' dO      dS = P * (dO V' - D)      dQ = dS K      dK = dS' Q

#include "amx.h"

namespace {

constexpr int WIDE = 32;                        // a head
constexpr float SCALE = 0.17677669529663688f;  // of scores: the root of 1 / WIDE
constexpr float NEVER = -1e30f;                 // the score of a key that a query does not see

// One head of a document: rows of WIDE numbers, padded to whole blocks with zeros.
inline void rows(bf16 *to, const bf16 *from, int64_t stride, int length, int padded) {
    for (int i = 0; i < length; i++) _mm512_store_si512(to + i * WIDE, _mm512_loadu_si512(from + i * stride));
    memset(to + length * WIDE, 0, sizeof(bf16) * WIDE * (padded - length));
}

// Of every 16 or 32 rows the tiles of a product; see amx.h.
inline void all_turned(bf16 *to, const bf16 *from, int padded) {
    for (int i = 0; i < padded * WIDE; i += PART) turned(to + i, from + i, WIDE);
}

inline void all_paired(bf16 *to, const bf16 *from, int padded) {
    for (int i = 0; i < padded * WIDE; i += AREA) paired(to + i, from + i, WIDE);
}

inline void all_across(bf16 *to, const bf16 *from, int padded) {
    for (int i = 0; i < padded * WIDE; i += AREA) across(to + i, from + i, WIDE);
}

// Two tiles of C, 16 columns each, to 16 rows of WIDE numbers in bfloat16, each times a factor.
inline void narrow(bf16 *to, int64_t stride, const float *tiles, float factor, int length) {
    __m512 f = _mm512_set1_ps(factor);
    for (int i = 0; i < length; i++) {
        __m512 a = _mm512_mul_ps(f, _mm512_load_ps(tiles + i * TILE)), b = _mm512_mul_ps(f, _mm512_load_ps(tiles + (TILE + i) * TILE));
        _mm512_storeu_si512(to + i * stride, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
}

// The same of tiles that have a row for each of WIDE numbers and a column for each of 16 rows, times a factor for each row.
inline void narrow_turned(bf16 *to, int64_t stride, const float *tiles, __m512 factor, int length) {
    __m512i a[TILE], b[TILE];
    for (int i = 0; i < TILE; i++) {
        a[i] = (__m512i)_mm512_mul_ps(factor, _mm512_load_ps(tiles + i * TILE));
        b[i] = (__m512i)_mm512_mul_ps(factor, _mm512_load_ps(tiles + (TILE + i) * TILE));
    }
    transpose(a), transpose(b);
    for (int i = 0; i < length; i++) _mm512_storeu_si512(to + i * stride, (__m512i)_mm512_cvtne2ps_pbh((__m512)b[i], (__m512)a[i]));
}

// Scores of 32 keys (two tiles of A) and 32 queries (two of B), to four tiles of [keys, queries].
inline void scores(float *to, const bf16 *keys, const bf16 *queries) {
    barrier(keys), barrier(queries);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    _tile_loadd(4, keys, 64); _tile_loadd(5, keys + TILE * WIDE, 64);
    _tile_loadd(6, queries, 64); _tile_loadd(7, queries + TILE * WIDE, 64);
    _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
    _tile_stored(0, to, 64); _tile_stored(1, to + 256, 64); _tile_stored(2, to + 512, 64); _tile_stored(3, to + 768, 64);
}

// Adds A [32, 32] B [32, 32] to four tiles of [32, 32].
inline void add(float *to, const bf16 *a, const bf16 *b) {
    barrier(a), barrier(b);
    _tile_loadd(0, to, 64); _tile_loadd(1, to + 256, 64); _tile_loadd(2, to + 512, 64); _tile_loadd(3, to + 768, 64);
    _tile_loadd(4, a, 64); _tile_loadd(5, a + TILE * WIDE, 64);
    _tile_loadd(6, b, 64); _tile_loadd(7, b + TILE * WIDE, 64);
    _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
    _tile_stored(0, to, 64); _tile_stored(1, to + 256, 64); _tile_stored(2, to + 512, 64); _tile_stored(3, to + 768, 64);
}

// The sum of the products of two rows.
inline float dot(const bf16 *a, const bf16 *b) {
    return _mm512_reduce_add_ps(_mm512_dpbf16_ps(_mm512_setzero_ps(), (__m512bh)_mm512_load_si512(a), (__m512bh)_mm512_load_si512(b)));
}

// Which of 16 queries from `query` on see a key.
inline __mmask16 see(int key, int query) {
    int before = key - query;  // queries before the key do not
    return before <= 0 ? 0xffff : before >= TILE ? 0 : (__mmask16)(0xffff << before);
}

struct Shape {
    int64_t query, key;  // numbers from one token to the next
};

// The answers of 32 queries from `first` on, and the logarithm to base 2 of each one's sum.
inline void attend(bf16 *out, float *sums, float *s, const bf16 *queries, const bf16 *keys, const bf16 *values, int first, int length,
                   const Shape &shape) {
    int blocks = first / BLOCK + 1;
    for (int b = 0; b < blocks; b++) scores(s + b * AREA, keys + b * BLOCK * WIDE, queries);
    float *diagonal = s + (blocks - 1) * AREA;
    for (int k = 0; k < BLOCK; k++)
        for (int half = 0; half < 2; half++) {
            float *at = diagonal + (k / TILE * 2 + half) * 256 + k % TILE * TILE;
            _mm512_store_ps(at, _mm512_mask_loadu_ps(_mm512_set1_ps(NEVER), see(k, half * TILE), at));
        }
    __m512 top[2] = {_mm512_set1_ps(NEVER), _mm512_set1_ps(NEVER)}, sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (float *t = s; t < s + blocks * AREA; t += 512)
        for (int k = 0; k < TILE; k++)
            for (int half = 0; half < 2; half++) top[half] = _mm512_max_ps(top[half], _mm512_load_ps(t + half * 256 + k * TILE));
    __m512 scale = _mm512_set1_ps(SCALE * LOG2E);
    top[0] = _mm512_mul_ps(top[0], scale), top[1] = _mm512_mul_ps(top[1], scale);
    alignas(64) float answer[AREA] = {};
    for (int b = 0; b < blocks; b++) {
        alignas(64) bf16 p[AREA];  // B: two keys a row, 16 queries, in two tiles of queries
        for (int k = 0; k < BLOCK; k += 2)
            for (int half = 0; half < 2; half++) {
                const float *at = s + b * AREA + (k / TILE * 2 + half) * 256 + k % TILE * TILE;
                __m512 x = exp2(_mm512_fmsub_ps(_mm512_load_ps(at), scale, top[half]));
                __m512 y = exp2(_mm512_fmsub_ps(_mm512_load_ps(at + TILE), scale, top[half]));
                sum[half] = _mm512_add_ps(sum[half], _mm512_add_ps(x, y));
                _mm512_store_si512(p + half * 512 + k * TILE, _mm512_permutexvar_epi16(ZIP, (__m512i)_mm512_cvtne2ps_pbh(y, x)));
            }
        add(answer, values + b * BLOCK * WIDE, p);
    }
    for (int half = 0; half < 2 && first + half * TILE < length; half++) {
        alignas(64) float tiles[512], l[TILE], t[TILE];
        memcpy(tiles, answer + half * 256, 1024), memcpy(tiles + 256, answer + 512 + half * 256, 1024);
        int n = length - first - half * TILE < TILE ? length - first - half * TILE : TILE;
        narrow_turned(out + half * TILE * shape.query, shape.query, tiles, _mm512_div_ps(_mm512_set1_ps(1), sum[half]), n);
        _mm512_store_ps(l, sum[half]), _mm512_store_ps(t, top[half]);
        for (int i = 0; i < n; i++) sums[first + half * TILE + i] = t[i] + __builtin_log2f(l[i]);
    }
}

// What a block of 32 keys and 32 queries adds to the derivatives. s and d are the scores and dO V' of the block, in tiles of
// [keys, queries]; they become P and dS: `p` and `ds` as A with a key a row, `pairs` as B with two keys a row.
inline void derive(const float *s, const float *d, const float *sums, const float *dots, bool diagonal,
                   bf16 *p, bf16 *ds, bf16 *pairs) {
    __m512 factor = _mm512_set1_ps(SCALE * LOG2E);
    for (int k = 0; k < BLOCK; k++) {
        __m512 x[2], y[2];
        for (int half = 0; half < 2; half++) {
            int at = (k / TILE * 2 + half) * 256 + k % TILE * TILE;
            x[half] = exp2(_mm512_fmsub_ps(_mm512_load_ps(s + at), factor, _mm512_load_ps(sums + half * TILE)));
            if (diagonal) x[half] = _mm512_maskz_mov_ps(see(k, half * TILE), x[half]);
            y[half] = _mm512_mul_ps(x[half], _mm512_sub_ps(_mm512_load_ps(d + at), _mm512_load_ps(dots + half * TILE)));
        }
        _mm512_store_si512(p + k * BLOCK, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
        _mm512_store_si512(ds + k * BLOCK, (__m512i)_mm512_cvtne2ps_pbh(y[1], y[0]));
    }
    for (int k = 0; k < BLOCK; k += 2) {
        __m512i a = _mm512_load_si512(ds + k * BLOCK), b = _mm512_load_si512(ds + (k + 1) * BLOCK);
        _mm512_store_si512(pairs + k * TILE, _mm512_permutex2var_epi16(a, LOW, b));
        _mm512_store_si512(pairs + 512 + k * TILE, _mm512_permutex2var_epi16(a, HIGH, b));
    }
}

}  // namespace

extern "C" {

// Whether the machine lets this process use its matrix units.
int attention_able() { return permitted(); }

// q, out: [tokens, heads, 32]; k, v: [tokens, key heads, 32]; sums: [heads, tokens]; lengths of the documents, one after the other.
void attention_forward(const bf16 *q, const bf16 *k, const bf16 *v, const int64_t *lengths,
                       int64_t documents, int64_t heads, int64_t key_heads, int64_t tokens,
                       bf16 *out, float *sums) {
    Tiles tiles;
    Memory memory[6];
    Shape shape = {heads * WIDE, key_heads * WIDE};
    for (int64_t d = 0, start = 0; d < documents; start += lengths[d++]) {
        int length = lengths[d], padded = (length + BLOCK - 1) / BLOCK * BLOCK;
        size_t n = (size_t)padded * WIDE;
        bf16 *plain = memory[0].get<bf16>(n), *keys = memory[1].get<bf16>(n);
        bf16 *values = memory[2].get<bf16>(n), *queries = memory[3].get<bf16>(n);
        float *s = memory[4].get<float>(n);
        for (int64_t h = 0; h < heads; h++) {
            if (h % (heads / key_heads) == 0) {
                int64_t at = start * shape.key + h / (heads / key_heads) * WIDE;
                rows(keys, k + at, shape.key, length, padded);
                rows(plain, v + at, shape.key, length, padded), all_across(values, plain, padded);
            }
            rows(plain, q + start * shape.query + h * WIDE, shape.query, length, padded), all_turned(queries, plain, padded);
            for (int first = 0; first < length; first += BLOCK)
                attend(out + (start + first) * shape.query + h * WIDE, sums + h * tokens + start, s, queries + first * WIDE, keys, values,
                       first, length, shape);
        }
    }
}

void attention_backward(const bf16 *q, const bf16 *k, const bf16 *v, const int64_t *lengths,
                        int64_t documents, int64_t heads, int64_t key_heads, int64_t tokens,
                        const bf16 *out, const float *sums, const bf16 *dout, bf16 *dq, bf16 *dk, bf16 *dv) {
    Tiles tiles;
    Memory memory[16];
    Shape shape = {heads * WIDE, key_heads * WIDE};
    for (int64_t d = 0, start = 0; d < documents; start += lengths[d++]) {
        int length = lengths[d], padded = (length + BLOCK - 1) / BLOCK * BLOCK;
        size_t n = (size_t)padded * WIDE;
        auto next = [&, i = 0]() mutable { return memory[i++].get<bf16>(n); };
        bf16 *plain = next(), *given = next(), *keys = next(), *crossed = next(), *values = next();
        bf16 *queries = next(), *query_pairs = next(), *wanted = next(), *wanted_pairs = next();
        float *kd = memory[9].get<float>(n), *vd = memory[10].get<float>(n), *qd = memory[11].get<float>(n);
        float *sum = memory[12].get<float>(padded), *dots = memory[13].get<float>(padded);
        for (int64_t h = 0; h < heads; h++) {
            int64_t group = heads / key_heads, at = start * shape.key + h / group * WIDE;
            if (h % group == 0) {
                rows(keys, k + at, shape.key, length, padded), all_across(crossed, keys, padded);
                rows(values, v + at, shape.key, length, padded);
                memset(kd, 0, sizeof(float) * n), memset(vd, 0, sizeof(float) * n);
            }
            int64_t mine = start * shape.query + h * WIDE;
            rows(plain, q + mine, shape.query, length, padded), all_turned(queries, plain, padded), all_paired(query_pairs, plain, padded);
            rows(given, out + mine, shape.query, length, padded), rows(plain, dout + mine, shape.query, length, padded);
            all_turned(wanted, plain, padded), all_paired(wanted_pairs, plain, padded);
            for (int i = 0; i < padded; i++) {
                sum[i] = i < length ? sums[h * tokens + start + i] : -NEVER;
                dots[i] = dot(given + i * WIDE, plain + i * WIDE);
            }
            memset(qd, 0, sizeof(float) * n);
            for (int key = 0; key < length; key += BLOCK)
                for (int query = key; query < length; query += BLOCK) {
                    alignas(64) float s[AREA], product[AREA];
                    alignas(64) bf16 p[AREA], ds[AREA], pairs[AREA];
                    scores(s, keys + key * WIDE, queries + query * WIDE);
                    scores(product, values + key * WIDE, wanted + query * WIDE);
                    derive(s, product, sum + query, dots + query, key == query, p, ds, pairs);
                    add(vd + key * WIDE, p, wanted_pairs + query * WIDE);
                    add(kd + key * WIDE, ds, query_pairs + query * WIDE);
                    add(qd + query * WIDE, crossed + key * WIDE, pairs);
                }
            for (int i = 0; i < length; i += TILE) {  // dQ has a number a row and a query a column
                alignas(64) float two[512];
                const float *from = qd + i / BLOCK * AREA + i % BLOCK / TILE * 256;
                memcpy(two, from, 1024), memcpy(two + 256, from + 512, 1024);
                narrow_turned(dq + mine + i * shape.query, shape.query, two, _mm512_set1_ps(SCALE), length - i < TILE ? length - i : TILE);
            }
            if (h % group == group - 1)
                for (int i = 0; i < length; i += TILE) {
                    int count = length - i < TILE ? length - i : TILE;
                    narrow(dk + at + i * shape.key, shape.key, kd + i * WIDE, SCALE, count);
                    narrow(dv + at + i * shape.key, shape.key, vd + i * WIDE, 1, count);
                }
        }
    }
}

}
