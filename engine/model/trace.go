package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"corenode/engine/kernel"
)

// Trace is what a model computes for a prompt: a distribution after every
// prompt token, then a greedy continuation. Its JSON is the form in which
// reference engines' logits are recorded.
type Trace struct {
	Vocab     int            `json:"n_vocab"`
	Prompt    []int32        `json:"prompt"`
	Positions []Distribution `json:"prompt_positions"`
	// Greedy[s] is the distribution that GreedyTokens[s] is the maximum of.
	Greedy       []Distribution `json:"greedy"`
	GreedyTokens []int32        `json:"greedy_tokens"`
}

// Distribution is the next-token distribution after one token.
type Distribution struct {
	LSE float64 `json:"lse"` // log-sum-exp of all logits
	// Top are the largest logits, largest first, equal ones by lower id.
	Top []Candidate `json:"top"`
}

// Candidate is one token of a distribution; in JSON [id, logit, log-softmax].
type Candidate struct {
	ID         int32
	Logit      float64
	LogSoftmax float64
}

// MarshalJSON implements json.Marshaler.
func (c Candidate) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]any{c.ID, c.Logit, c.LogSoftmax})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Candidate) UnmarshalJSON(b []byte) error {
	var v [3]float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*c = Candidate{int32(v[0]), v[1], v[2]}
	return nil
}

// traceChunk is how many prompt rows one step computes, and so how many rows of
// logits are in memory at a time.
const traceChunk = 64

// RunTrace computes the trace of tokens with the top candidates of each
// distribution and greedy more tokens. cache must be unused, have pages of
// pageTokens positions, enough of them for len(tokens)+greedy positions, and
// slot 0 if the model has state.
func RunTrace(m *Model, cache kernel.Cache, pageTokens int, tokens []int32, top, greedy int) (*Trace, error) {
	if len(tokens) == 0 || pageTokens < 1 || top < 0 || greedy < 0 {
		return nil, fmt.Errorf("trace of %d tokens, page size %d, top %d, greedy %d", len(tokens), pageTokens, top, greedy)
	}
	r := runner{m: m, cache: cache, rows: make([][]float32, min(len(tokens), traceChunk))}
	for i := range r.rows {
		r.rows[i] = make([]float32, m.cfg.Vocab)
	}
	r.pages = rowsFrom(0, (len(tokens)+greedy+pageTokens-1)/pageTokens)
	if m.HasState() {
		cache.ResetState(0)
	}
	t := &Trace{Vocab: m.cfg.Vocab, Prompt: tokens, Positions: []Distribution{}, Greedy: []Distribution{}, GreedyTokens: []int32{}}
	last := r.rows[0]
	for at := 0; at < len(tokens); at += traceChunk {
		chunk := tokens[at:min(at+traceChunk, len(tokens))]
		if err := r.step(chunk, true); err != nil {
			return nil, err
		}
		for i := range chunk {
			last = r.rows[i]
			t.Positions = append(t.Positions, distribute(last, top))
		}
	}
	for i := range greedy {
		d := distribute(last, max(top, 1))
		next := d.Top[0].ID
		d.Top = d.Top[:min(top, len(d.Top))]
		t.Greedy, t.GreedyTokens = append(t.Greedy, d), append(t.GreedyTokens, next)
		if i+1 == greedy {
			break // nobody asks what comes after the last token
		}
		if err := r.step([]int32{next}, false); err != nil {
			return nil, err
		}
		last = r.rows[0]
	}
	return t, nil
}

// runner feeds one sequence.
type runner struct {
	m     *Model
	cache kernel.Cache
	pages []int32
	pos   int
	rows  [][]float32
}

// step computes tokens; their logits are in rows.
func (r *runner) step(tokens []int32, prompt bool) error {
	n := len(tokens)
	step := &kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n, Pos: r.pos, Pages: r.pages, Prompt: prompt}}}
	r.pos += n
	return r.m.Forward(step, tokens, r.cache, rowsFrom(0, n), r.rows[:n])
}

// distribute describes logits by their log-sum-exp and largest top values.
func distribute(logits []float32, top int) Distribution {
	ids := largest(logits, max(top, 1))
	most := float64(logits[ids[0]])
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	d := Distribution{LSE: most + math.Log(sum), Top: []Candidate{}}
	for _, id := range ids[:min(top, len(ids))] {
		x := float64(logits[id])
		d.Top = append(d.Top, Candidate{id, x, x - d.LSE})
	}
	return d
}

// largest are the places of the n largest values, the largest first, of equal ones the first; NaN is below all.
func largest(values []float32, n int) []int32 {
	var ids []int32
	for id, x := range values {
		at, _ := slices.BinarySearchFunc(ids, x, func(id int32, x float32) int {
			if y := values[id]; y >= x || x != x {
				return -1 // it stays in front
			}
			return 1
		})
		if at == n {
			continue
		}
		ids = slices.Insert(ids[:min(len(ids), n-1)], at, int32(id))
	}
	return ids
}
