// What a Gated DeltaNet layer does between its projections, and its derivatives, token by token on a CPU: the short convolution
// over packed documents, SiLU, the length of q and k, and the delta rule. delta.py compiles and calls it. Heads are 32 wide, numbers
// float32; V heads of one group share a head of q and k. Channels are those of q, then k, then v.
//
// By chunks the rule is a handful of matrix products, which a GPU wants; but what they read and write (decays between all pairs
// of a chunk) is far more than a state of 4 KB, which stays in a core's first cache. A token costs two passes over it forward,
// and two over it and its derivative back.
//
// With S the state before a token, a its decay and b its rate, d = b (v - a S'k), the state after it a S + k d' and the answer
// o = (a S + k d')'q. Back, with D the derivative of the state after the token, to which the answer adds q do':
//
//     dd = D'k      db = dd . (v - a S'k)      dv = b dd      N = D - k dv'      dk = D d - a S dv
//     dq = a S do + k (d . do)                 da = sum(N * S)                   D of the token before = a N

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr int WIDE = 32;   // a head
constexpr int LANES = 16;  // of a vector: half of a row of a state
constexpr int CHUNK = 32;  // tokens from one state that is kept to the next; delta.py knows it too
constexpr int TAPS = 4;    // of the convolution
constexpr int AREA = WIDE * WIDE;
constexpr float EPSILON = 1e-6f;                // of lengths
constexpr float SCALE = 0.17677669529663688f;   // of q: the root of 1 / WIDE

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Places __attribute__((vector_size(4 * LANES)));

struct Row {
    Vector low, high;
};

struct State {
    Row row[WIDE];
};

inline Row row(const float *from) {
    Row r;
    memcpy(&r, from, sizeof r);
    return r;
}

inline void keep(float *to, const Row &r) { memcpy(to, &r, sizeof r); }

inline float sum(Vector x) {
    float lanes[LANES];
    memcpy(lanes, &x, sizeof x);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
}

// e^x: 2^n times a series for what is left of x log2(e). The term that is left out is below 2e-7.
inline Vector exponential(Vector x) {
    x = x * 1.44269504088896341f;
    x = x < -126.f ? Vector{} - 126.f : x > 126.f ? Vector{} + 126.f : x;
    Places n = __builtin_convertvector(x < 0.f ? x - 0.5f : x + 0.5f, Places);
    Vector r = x - __builtin_convertvector(n, Vector), p = Vector{} + 1.5403530e-4f;
    for (float term : {1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.f}) p = p * r + term;
    return (Vector)((Places)p + (n << 23));
}

inline Vector sigmoid(Vector x) { return 1.f / (1.f + exponential(-x)); }

inline Vector load(const float *from) {
    Vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

inline void store(float *to, Vector x) { memcpy(to, &x, sizeof x); }

inline float dot(const Row &a, const Row &b) { return sum(a.low * b.low + a.high * b.high); }

// The sums of neighbors: first those of a, then those of b.
inline Vector pairs(Vector a, Vector b) {
    const Places even = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    return __builtin_shuffle(a, b, even) + __builtin_shuffle(a, b, even + 1);
}

// The sums of 16 vectors, as one.
inline Vector sums(const Vector x[LANES]) {
    Vector a[8], b[4];
    for (int i = 0; i < 8; i++) a[i] = pairs(x[2 * i], x[2 * i + 1]);
    for (int i = 0; i < 4; i++) b[i] = pairs(a[2 * i], a[2 * i + 1]);
    return pairs(pairs(b[0], b[1]), pairs(b[2], b[3]));
}

// What one token of one head reads.
struct Token {
    const float *q, *k;
    Row v;
    float decay, rate;
};

// Writes the state after a token, which may be in the same place, and u = v - a S'k. Returns the token's answer.
inline Row advance(const State &s, State &after, const Token &t, Row &u) {
    Row read[2] = {}, answer[2] = {};
    for (int i = 0; i < WIDE; i += 2)
        for (int j = 0; j < 2; j++) {
            const Row &r = s.row[i + j];
            read[j].low += r.low * t.k[i + j], read[j].high += r.high * t.k[i + j];
            answer[j].low += r.low * t.q[i + j], answer[j].high += r.high * t.q[i + j];
        }
    u.low = t.v.low - t.decay * (read[0].low + read[1].low);
    u.high = t.v.high - t.decay * (read[0].high + read[1].high);
    Row d = {t.rate * u.low, t.rate * u.high};
    for (int i = 0; i < WIDE; i++) {
        after.row[i].low = t.decay * s.row[i].low + t.k[i] * d.low;
        after.row[i].high = t.decay * s.row[i].high + t.k[i] * d.high;
    }
    float both = dot(row(t.q), row(t.k));
    return {t.decay * (answer[0].low + answer[1].low) + both * d.low, t.decay * (answer[0].high + answer[1].high) + both * d.high};
}

// The derivatives of one token of one head, and of the state before it in place of that of the state after it.
struct Derivatives {
    Vector q[2], k[2];
    Row v;
    float decay, rate;
};

inline Derivatives back(State &after, const State &s, const Token &t, const Row &u, const Row &given) {
    Row along[2] = {};
    for (int i = 0; i < WIDE; i += 2)
        for (int j = 0; j < 2; j++) {
            Row &r = after.row[i + j];
            r.low += t.q[i + j] * given.low, r.high += t.q[i + j] * given.high;
            along[j].low += r.low * t.k[i + j], along[j].high += r.high * t.k[i + j];
        }
    Row dd = {along[0].low + along[1].low, along[0].high + along[1].high};
    Row d = {t.rate * u.low, t.rate * u.high};
    Derivatives out;
    out.rate = dot(dd, u);
    out.v = {t.rate * dd.low, t.rate * dd.high};
    Row faded = {t.decay * out.v.low, t.decay * out.v.high};
    Vector total = {};
    for (int part = 0; part < 2; part++) {
        Vector q[LANES], k[LANES];
        for (int i = 0; i < LANES; i++) {
            Row &r = after.row[part * LANES + i];
            const Row &b = s.row[part * LANES + i];
            float key = t.k[part * LANES + i];
            q[i] = b.low * given.low + b.high * given.high;
            k[i] = r.low * d.low + r.high * d.high - b.low * faded.low - b.high * faded.high;
            Row n = {r.low - key * out.v.low, r.high - key * out.v.high};
            total += n.low * b.low + n.high * b.high;
            r.low = t.decay * n.low, r.high = t.decay * n.high;
        }
        out.q[part] = sums(q), out.k[part] = sums(k);
    }
    float both = dot(d, given);
    Row key = row(t.k);
    out.q[0] = t.decay * out.q[0] + both * key.low, out.q[1] = t.decay * out.q[1] + both * key.high;
    out.decay = sum(total);
    return out;
}

// Rows of tokens, and what belongs to each of them.
struct Layer {
    const float *x, *weight, *decay, *rate;  // [rows, tokens, channels], [TAPS, channels] from now back, [rows, tokens, heads] twice
    const int32_t *segment;                  // [rows, tokens]
    int64_t tokens, heads, key_heads;

    int64_t channels() const { return (2 * key_heads + heads) * WIDE; }
    int64_t head(int64_t row, int64_t t, int64_t h) const { return (row * tokens + t) * heads + h; }
    // The state before the first token of a chunk.
    int64_t state(int64_t row, int64_t chunk, int64_t h) const { return ((row * (tokens / CHUNK) + chunk) * heads + h) * AREA; }
    // Whether the token is the first of its document.
    bool first(int64_t row, int64_t t) const { return t == 0 || segment[row * tokens + t] != segment[row * tokens + t - 1]; }
    // How many tokens of the document the convolution of one reads.
    int taps(int64_t row, int64_t t) const {
        int n = 1;
        while (n < TAPS && !first(row, t - n + 1)) n++;
        return n;
    }
};

// The tokens of a chunk, from the projection to what the rule reads.
struct Chunk {
    const Layer &l;
    int64_t row, begin, channels;
    std::vector<float> mixed, slopes, lengths;  // what the rule reads; the derivatives of SiLU; one over the length of each q and k

    explicit Chunk(const Layer &layer)
        : l(layer), channels(l.channels()), mixed(CHUNK * channels), slopes(CHUNK * channels), lengths(CHUNK * 2 * l.key_heads) {}

    void read(int64_t r, int64_t from) {
        row = r, begin = from;
        for (int i = 0; i < CHUNK; i++) {
            const float *x = l.x + (row * l.tokens + begin + i) * channels;
            int taps = l.taps(row, begin + i);
            for (int64_t c = 0; c < channels; c += LANES) {
                Vector y = {};
                for (int back = 0; back < taps; back++) y += load(l.weight + back * channels + c) * load(x - back * channels + c);
                Vector s = sigmoid(y);
                store(&mixed[i * channels + c], y * s), store(&slopes[i * channels + c], s * (1.f + y * (1.f - s)));
            }
            for (int64_t h = 0; h < 2 * l.key_heads; h++) {
                float *at = &mixed[i * channels + h * WIDE];
                Row y = ::row(at);
                float length = 1 / std::sqrt(dot(y, y) + EPSILON), scale = h < l.key_heads ? length * SCALE : length;
                lengths[i * 2 * l.key_heads + h] = length;
                keep(at, {y.low * scale, y.high * scale});
            }
        }
    }

    Token token(int i, int64_t h) const {
        const float *at = &mixed[i * channels];
        int64_t key = h / (l.heads / l.key_heads), head = l.head(row, begin + i, h);
        return {at + key * WIDE, at + (l.key_heads + key) * WIDE, ::row(at + (2 * l.key_heads + h) * WIDE), l.decay[head], l.rate[head]};
    }

    // Takes the derivatives of all that the rule read to those of what the layer read.
    void back(float *d, float *dx, float *dweight) const {
        for (int i = CHUNK - 1; i >= 0; i--) {
            for (int64_t h = 0; h < 2 * l.key_heads; h++) {
                float *at = d + i * channels + h * WIDE, length = lengths[i * 2 * l.key_heads + h];
                Row n = ::row(&mixed[i * channels + h * WIDE]), g = ::row(at);
                if (h < l.key_heads) n = {n.low * (1 / SCALE), n.high * (1 / SCALE)}, g = {g.low * SCALE, g.high * SCALE};
                float along = dot(n, g);
                keep(at, {(g.low - along * n.low) * length, (g.high - along * n.high) * length});
            }
            int64_t at = (row * l.tokens + begin + i) * channels;
            int taps = l.taps(row, begin + i);
            for (int64_t c = 0; c < channels; c += LANES) {
                Vector g = load(d + i * channels + c) * load(&slopes[i * channels + c]);
                for (int b = 0; b < taps; b++) {
                    float *to = dx + at - b * channels + c, *w = dweight + b * channels + c;
                    store(to, load(to) + g * load(l.weight + b * channels + c));
                    store(w, load(w) + g * load(l.x + at - b * channels + c));
                }
            }
        }
    }
};

inline void add(float *to, const Vector x[2]) { store(to, load(to) + x[0]), store(to + LANES, load(to + LANES) + x[1]); }

}  // namespace

extern "C" {

// Writes out [rows, tokens, heads, 32] and states [rows, tokens / CHUNK, heads, 32, 32]. tokens is a multiple of CHUNK.
void delta_forward(const float *x, const float *weight, const float *decay, const float *rate, const int32_t *segment,
                   int64_t rows, int64_t tokens, int64_t heads, int64_t key_heads, float *out, float *states) {
    Layer layer = {x, weight, decay, rate, segment, tokens, heads, key_heads};
    Chunk chunk(layer);
    std::vector<State> s(heads);
    Row u;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t begin = 0; begin < tokens; begin += CHUNK) {
            chunk.read(r, begin);
            for (int i = 0; i < CHUNK; i++)
                for (int64_t h = 0; h < heads; h++) {  // heads do not wait for each other
                    if (layer.first(r, begin + i)) s[h] = {};
                    if (i == 0) memcpy(states + layer.state(r, begin / CHUNK, h), &s[h], sizeof(State));
                    keep(out + layer.head(r, begin + i, h) * WIDE, advance(s[h], s[h], chunk.token(i, h), u));
                }
        }
}

// The derivatives of what delta_forward reads, from that of out. dx and dweight are zeros before.
void delta_backward(const float *x, const float *weight, const float *decay, const float *rate, const int32_t *segment,
                    int64_t rows, int64_t tokens, int64_t heads, int64_t key_heads, const float *states, const float *given,
                    float *dx, float *dweight, float *ddecay, float *drate) {
    Layer layer = {x, weight, decay, rate, segment, tokens, heads, key_heads};
    Chunk chunk(layer);
    std::vector<State> before((CHUNK + 1) * heads), after(heads);
    std::vector<float> d(CHUNK * chunk.channels);
    std::vector<Row> u(CHUNK * heads);
    for (int64_t r = 0; r < rows; r++) {
        for (State &s : after) s = {};
        for (int64_t begin = tokens - CHUNK; begin >= 0; begin -= CHUNK) {
            chunk.read(r, begin);
            std::fill(d.begin(), d.end(), 0.f);
            memcpy(&before[0], states + layer.state(r, begin / CHUNK, 0), heads * sizeof(State));
            for (int i = 0; i < CHUNK; i++)
                for (int64_t h = 0; h < heads; h++) {
                    State &s = before[i * heads + h];
                    if (layer.first(r, begin + i)) s = {};
                    advance(s, before[(i + 1) * heads + h], chunk.token(i, h), u[i * heads + h]);
                }
            for (int i = CHUNK - 1; i >= 0; i--)
                for (int64_t h = 0; h < heads; h++) {
                    int64_t head = layer.head(r, begin + i, h), key = h / (heads / key_heads);
                    float *at = &d[i * chunk.channels];
                    Derivatives one = back(after[h], before[i * heads + h], chunk.token(i, h), u[i * heads + h], row(given + head * WIDE));
                    add(at + key * WIDE, one.q), add(at + (key_heads + key) * WIDE, one.k), keep(at + (2 * key_heads + h) * WIDE, one.v);
                    ddecay[head] = one.decay, drate[head] = one.rate;
                    if (layer.first(r, begin + i)) after[h] = {};
                }
            chunk.back(d.data(), dx, dweight);
        }
    }
}

}
