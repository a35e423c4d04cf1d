// A mixture of experts and its derivatives on the matrix units (AMX) of an x86 CPU. mixture.py compiles and calls it.
//
// Each part, an expert or the shared one, is down(weight * silu(gate(x)) * up(x)) of the tokens that have a weight for it, so a token
// costs the experts that it has. Numbers are float32 in memory and bfloat16 in products; what lies between the projections stays in
// a core's caches and is computed again for the derivatives.
//
// With h = silu(g) u, from the derivative dy of what a part gives:
//
//     dw = dy D . h      dh = w dy D      du = dh silu(g)      dg = dh u silu'(g)
//     dx = dg G + du U   dG = dg' x       dU = du' x           dD = dy' (w h)

#include "amx.h"

#include <algorithm>
#include <new>
#include <vector>

namespace {

constexpr int64_t OUTER = 1024;  // tokens whose answers stay in the cache while one part after the other adds to them
constexpr int64_t BATCH = 256;   // tokens of one part whose derivatives are kept until the weights' are computed of them

// Memory that begins at a line of the cache.
template <typename T> struct Aligned {
    typedef T value_type;
    T *allocate(size_t n) { return static_cast<T *>(::operator new(n * sizeof(T), std::align_val_t(64))); }
    void deallocate(T *at, size_t) { ::operator delete(at, std::align_val_t(64)); }
    bool operator==(const Aligned &) const { return true; }
    bool operator!=(const Aligned &) const { return false; }
};
typedef std::vector<bf16, Aligned<bf16>> Numbers;

struct Part {
    const float *gate, *up, *down;  // [wide, hidden] twice, [hidden, wide]
    int64_t wide;
    float *dgate, *dup, *ddown;     // [wide, hidden] each
};

struct Layer {
    const float *x, *weights;  // [tokens, hidden], [tokens, parts]
    int64_t tokens, hidden;
    std::vector<Part> parts;   // the shared one is the last
};

void narrow(bf16 *to, const float *from, int64_t count) {
    for (int64_t i = 0; i < count; i += BLOCK)
        _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + TILE), _mm512_loadu_ps(from + i)));
}

// A matrix [sums, columns] as tiles of B: [sums / 32, columns / 16].
struct Matrix {
    Numbers tiles;
    int64_t sums = 0, columns = 0;

    bf16 *tile(int64_t sum, int64_t column) { return &tiles[(sum / BLOCK * (columns / TILE) + column / TILE) * PART]; }
    int64_t step() const { return columns / TILE * PART; }
    void shape(int64_t s, int64_t c) { sums = s, columns = c, tiles.resize(s * c); }
    void of(const bf16 *from) {
        for (int64_t s = 0; s < sums; s += BLOCK)
            for (int64_t c = 0; c < columns; c += BLOCK) paired(tile(s, c), from + s * columns + c, columns);
    }
    void of_transpose(const bf16 *from) {
        for (int64_t c = 0; c < columns; c += TILE)
            for (int64_t s = 0; s < sums; s += BLOCK) turned(tile(s, c), from + c * sums + s, sums);
    }
};

// The weights of a part, as its products want them.
struct Weights {
    Matrix gate, up, down, gate_back, up_back, down_back;
    Numbers plain;

    void of(const Part &p, int64_t hidden, bool back) {
        struct One {
            const float *from;
            int64_t rows, columns;
            Matrix &forward, &backward;
        };
        for (const One &one : {One{p.gate, p.wide, hidden, gate, gate_back}, One{p.up, p.wide, hidden, up, up_back},
                               One{p.down, hidden, p.wide, down, down_back}}) {
            plain.resize(one.rows * one.columns);
            narrow(plain.data(), one.from, one.rows * one.columns);
            one.forward.shape(one.columns, one.rows), one.forward.of_transpose(plain.data());
            if (back) one.backward.shape(one.rows, one.columns), one.backward.of(plain.data());
        }
    }
};

inline void zero() { _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); }

// Adds 32 rows of A, `stride` from one to the next, times 32 columns of B to the tiles.
inline void product(const bf16 *a, int64_t stride, const bf16 *b, int64_t step, int64_t sums) {
    barrier(a), barrier(b);
    for (int64_t s = 0; s < sums; s += BLOCK, b += step) {
        _tile_loadd(4, a + s, stride * 2); _tile_loadd(5, a + TILE * stride + s, stride * 2);
        _tile_loadd(6, b, 64); _tile_loadd(7, b + PART, 64);
        _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
    }
}

inline void stored(float *c) {
    _tile_stored(0, c, 64); _tile_stored(1, c + 256, 64); _tile_stored(2, c + 512, 64); _tile_stored(3, c + 768, 64);
    barrier(c);
}

// A row of the four tiles, in halves.
inline const float *half(const float *c, int row, int h) { return c + (row / TILE * 2 + h) * 256 + row % TILE * TILE; }

// 1 / (1 + e^-x), to 14 bits: what comes of it is kept in eight.
inline __m512 sigmoid(__m512 x) {
    __m512 e = exp2(_mm512_mul_ps(x, _mm512_set1_ps(-LOG2E)));
    return _mm512_rcp14_ps(_mm512_add_ps(_mm512_set1_ps(1), e));
}

inline void pair(bf16 *to, const __m512 x[2]) { _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0])); }

// The tokens of a part, up to BATCH of them, filled up to whole blocks with tokens that are nothing.
struct Tokens {
    int64_t token[BATCH];
    float weight[BATCH];
    int64_t count = 0, padded = 0, hidden;

    void add(int64_t t, float w) { token[count] = t, weight[count++] = w; }
    void pad() {
        padded = (count + BLOCK - 1) / BLOCK * BLOCK;
        std::fill(weight + count, weight + padded, 0.f);
    }
    // Their rows of a matrix, in bfloat16.
    void gather(bf16 *to, const float *from) const {
        for (int64_t i = 0; i < count; i++) narrow(to + i * hidden, from + token[i] * hidden, hidden);
        std::fill(to + count * hidden, to + padded * hidden, 0);
    }
    // Adds 32 columns of 32 of the rows to those of a matrix.
    void scatter(float *to, const float *c, int64_t first) const {
        for (int i = 0; i < BLOCK && first + i < count; i++)
            for (int h = 0; h < 2; h++) {
                float *at = to + token[first + i] * hidden + h * TILE;
                _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), _mm512_load_ps(half(c, i, h))));
            }
    }
};

// Calls do(part, tokens) for the tokens of every part, so that what they add to stays near.
template <typename Do> void every(const Layer &l, Do &&each) {
    for (int64_t begin = 0; begin < l.tokens; begin += OUTER)
        for (size_t p = 0; p < l.parts.size(); p++) {
            Tokens tokens;
            tokens.hidden = l.hidden;
            int64_t end = std::min(begin + OUTER, l.tokens);
            for (int64_t t = begin; t < end; t++) {
                float w = l.weights[t * l.parts.size() + p];
                if (w != 0) tokens.add(t, w);
                if (tokens.count == BATCH || (t == end - 1 && tokens.count)) tokens.pad(), each(p, tokens), tokens.count = 0;
            }
        }
}

std::vector<Weights> packed(const Layer &l, bool back) {
    std::vector<Weights> all(l.parts.size());
    for (size_t p = 0; p < all.size(); p++) all[p].of(l.parts[p], l.hidden, back);
    return all;
}

void forward(const Layer &l, float *y) {
    Tiles tiles;
    std::vector<Weights> all = packed(l, false);
    Numbers x(BATCH * l.hidden), h;
    every(l, [&](size_t p, const Tokens &tokens) {
        Weights &w = all[p];
        int64_t wide = l.parts[p].wide;
        h.resize(BLOCK * wide);
        tokens.gather(x.data(), l.x);
        alignas(64) float g[AREA], u[AREA];
        for (int64_t first = 0; first < tokens.padded; first += BLOCK) {
            const bf16 *rows = &x[first * l.hidden];
            for (int64_t unit = 0; unit < wide; unit += BLOCK) {
                zero(), product(rows, l.hidden, w.gate.tile(0, unit), w.gate.step(), l.hidden), stored(g);
                zero(), product(rows, l.hidden, w.up.tile(0, unit), w.up.step(), l.hidden), stored(u);
                for (int i = 0; i < BLOCK; i++) {
                    __m512 weight = _mm512_set1_ps(tokens.weight[first + i]), out[2];
                    for (int k = 0; k < 2; k++) {
                        __m512 a = _mm512_load_ps(half(g, i, k));
                        out[k] = _mm512_mul_ps(_mm512_mul_ps(a, sigmoid(a)), _mm512_mul_ps(weight, _mm512_load_ps(half(u, i, k))));
                    }
                    pair(&h[i * wide + unit], out);
                }
            }
            for (int64_t c = 0; c < l.hidden; c += BLOCK) {
                zero(), product(h.data(), wide, w.down.tile(0, c), w.down.step(), wide), stored(g);
                tokens.scatter(y + c, g, first);
            }
        }
    });
}

// What is kept of the tokens of a part: weight * h, and the derivatives of what the projections gave.
struct Kept {
    Numbers h, g, u;
    int64_t wide;

    void resize(int64_t w) {
        wide = w;
        for (auto *v : {&h, &g, &u}) v->resize(BATCH * w);
    }
};

// Keeps what units `unit` to unit + 31 of 32 tokens come to, of which g, u and dy D are in tiles. Adds to each token's dw.
inline void derive(Kept &kept, const float *g, const float *u, const float *d, const float *weights, int64_t first, int64_t unit,
                   __m512 *dw) {
    const __m512 one = _mm512_set1_ps(1);
    for (int i = 0; i < BLOCK; i++) {
        __m512 weight = _mm512_set1_ps(weights[first + i]), h[2], dg[2], du[2];
        for (int k = 0; k < 2; k++) {
            __m512 a = _mm512_load_ps(half(g, i, k)), b = _mm512_load_ps(half(u, i, k)), given = _mm512_load_ps(half(d, i, k));
            __m512 s = sigmoid(a), silu = _mm512_mul_ps(a, s), both = _mm512_mul_ps(silu, b), dh = _mm512_mul_ps(weight, given);
            dw[i] = _mm512_fmadd_ps(given, both, dw[i]);
            h[k] = _mm512_mul_ps(weight, both);
            du[k] = _mm512_mul_ps(dh, silu);
            dg[k] = _mm512_mul_ps(_mm512_mul_ps(dh, b), _mm512_fmadd_ps(silu, _mm512_sub_ps(one, s), s));
        }
        int64_t at = (first + i) * kept.wide + unit;
        pair(&kept.h[at], h), pair(&kept.g[at], dg), pair(&kept.u[at], du);
    }
}

// Adds the transpose of rows [tokens, wide] times a matrix [tokens, hidden] to a derivative [wide, hidden].
inline void weigh(float *to, const Numbers &rows, int64_t wide, Matrix &m, int64_t tokens) {
    Numbers a(BLOCK * tokens);
    for (int64_t unit = 0; unit < wide; unit += BLOCK) {
        for (int64_t t = 0; t < tokens; t += BLOCK) across(&a[t * BLOCK], &rows[t * wide + unit], wide);
        for (int64_t c = 0; c < m.columns; c += BLOCK) {
            float *at = to + unit * m.columns + c, *below = at + TILE * m.columns;
            int64_t stride = m.columns * 4;
            barrier(at), barrier(a.data());
            _tile_loadd(0, at, stride); _tile_loadd(1, at + TILE, stride);
            _tile_loadd(2, below, stride); _tile_loadd(3, below + TILE, stride);
            for (int64_t t = 0; t < tokens; t += BLOCK) {
                const bf16 *left = &a[t * BLOCK], *right = m.tile(t, c);
                _tile_loadd(4, left, 64); _tile_loadd(5, left + PART, 64); _tile_loadd(6, right, 64); _tile_loadd(7, right + PART, 64);
                _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, at, stride); _tile_stored(1, at + TILE, stride);
            _tile_stored(2, below, stride); _tile_stored(3, below + TILE, stride);
            barrier(at);
        }
    }
}

void backward(const Layer &l, const float *dy, float *dx, float *dweights) {
    Tiles tiles;
    std::vector<Weights> all = packed(l, true);
    Numbers x(BATCH * l.hidden), given(BATCH * l.hidden);
    Matrix x_pairs, given_pairs;
    Kept kept;
    every(l, [&](size_t p, const Tokens &tokens) {
        Weights &w = all[p];
        const Part &part = l.parts[p];
        int64_t wide = part.wide;
        kept.resize(wide);
        tokens.gather(x.data(), l.x), tokens.gather(given.data(), dy);
        alignas(64) float g[AREA], u[AREA], d[AREA];
        for (int64_t first = 0; first < tokens.padded; first += BLOCK) {
            const bf16 *rows = &x[first * l.hidden], *wanted = &given[first * l.hidden];
            __m512 dw[BLOCK] = {};
            for (int64_t unit = 0; unit < wide; unit += BLOCK) {
                zero(), product(rows, l.hidden, w.gate.tile(0, unit), w.gate.step(), l.hidden), stored(g);
                zero(), product(rows, l.hidden, w.up.tile(0, unit), w.up.step(), l.hidden), stored(u);
                zero(), product(wanted, l.hidden, w.down_back.tile(0, unit), w.down_back.step(), l.hidden), stored(d);
                derive(kept, g, u, d, tokens.weight, first, unit, dw);
            }
            for (int i = 0; i < BLOCK && first + i < tokens.count; i++)
                dweights[tokens.token[first + i] * l.parts.size() + p] = _mm512_reduce_add_ps(dw[i]);
            for (int64_t c = 0; c < l.hidden; c += BLOCK) {
                zero();
                product(&kept.g[first * wide], wide, w.gate_back.tile(0, c), w.gate_back.step(), wide);
                product(&kept.u[first * wide], wide, w.up_back.tile(0, c), w.up_back.step(), wide);
                stored(g), tokens.scatter(dx + c, g, first);
            }
        }
        x_pairs.shape(tokens.padded, l.hidden), x_pairs.of(x.data());
        given_pairs.shape(tokens.padded, l.hidden), given_pairs.of(given.data());
        weigh(part.dgate, kept.g, wide, x_pairs, tokens.padded);
        weigh(part.dup, kept.u, wide, x_pairs, tokens.padded);
        weigh(part.ddown, kept.h, wide, given_pairs, tokens.padded);
    });
}

}  // namespace

extern "C" {

// Whether the machine lets this process use its matrix units.
int mixture_able() { return permitted(); }

// x, y: [tokens, hidden]; weights: [tokens, experts + 1], the shared expert's the last; gate_up: [experts, 2 * wide, hidden];
// down: [experts, hidden, wide]; shared_gate, shared_up: [shared, hidden]; shared_down: [hidden, shared]. Sizes are multiples of 32.
// y is zeros before.
void mixture_forward(const float *x, const float *weights, const float *gate_up, const float *down, const float *shared_gate,
                     const float *shared_up, const float *shared_down, int64_t tokens, int64_t hidden, int64_t experts, int64_t wide,
                     int64_t shared, float *y) {
    Layer l = {x, weights, tokens, hidden, {}};
    for (int64_t e = 0, area = wide * hidden; e < experts; e++) {
        const float *gate = gate_up + 2 * e * area;
        l.parts.push_back({gate, gate + area, down + e * area, wide, nullptr, nullptr, nullptr});
    }
    l.parts.push_back({shared_gate, shared_up, shared_down, shared, nullptr, nullptr, nullptr});
    forward(l, y);
}

// The derivatives of all that mixture_forward reads, from that of y. Those of down are transposed; all are zeros before.
void mixture_backward(const float *x, const float *weights, const float *gate_up, const float *down, const float *shared_gate,
                      const float *shared_up, const float *shared_down, int64_t tokens, int64_t hidden, int64_t experts, int64_t wide,
                      int64_t shared, const float *dy, float *dx, float *dweights, float *dgate_up, float *ddown, float *dshared_gate,
                      float *dshared_up, float *dshared_down) {
    Layer l = {x, weights, tokens, hidden, {}};
    for (int64_t e = 0, area = wide * hidden; e < experts; e++) {
        const float *gate = gate_up + 2 * e * area;
        float *dgate = dgate_up + 2 * e * area;
        l.parts.push_back({gate, gate + area, down + e * area, wide, dgate, dgate + area, ddown + e * area});
    }
    l.parts.push_back({shared_gate, shared_up, shared_down, shared, dshared_gate, dshared_up, dshared_down});
    backward(l, dy, dx, dweights);
}

}
