package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel"
)

// sequence is one token stream over a cache that it may share.
type sequence struct {
	m     *Model
	cache kernel.Cache
	pages []int32
	slot  int32
	pos   int
	// prompt says that tokens are read from a prompt.
	prompt bool
}

// newSequence takes slot number slot and the pages that belong to it: every
// sequence gets the same number, interleaved so that tables are not contiguous.
func newSequence(t testing.TB, m *Model, cache kernel.Cache, slot, pageTokens int) *sequence {
	t.Helper()
	s := &sequence{m: m, cache: cache, slot: int32(slot)}
	for i := range sequenceTokens / pageTokens {
		s.pages = append(s.pages, int32(i*sequencesMax+slot))
	}
	if m.HasState() {
		cache.ResetState(s.slot)
	}
	return s
}

const (
	sequenceTokens = 128
	sequencesMax   = 8
)

// sequencePages is how many pages sequencesMax sequences own together.
func sequencePages(pageTokens int) int { return sequencesMax * sequenceTokens / pageTokens }

func rows(m *Model, n int) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, m.cfg.Vocab)
	}
	return out
}

// span is a run of the sequence's next n tokens at a row of a step.
func (s *sequence) span(row, n int) kernel.Span {
	sp := kernel.Span{Row: row, Len: n, Pos: s.pos, Pages: s.pages, State: s.slot, Prompt: s.prompt}
	s.pos += n
	return sp
}

// feed computes tokens in one step and returns all their logits.
func (s *sequence) feed(t testing.TB, tokens []int32) [][]float32 {
	t.Helper()
	out := rows(s.m, len(tokens))
	step := &kernel.Step{Rows: len(tokens), Spans: []kernel.Span{s.span(0, len(tokens))}}
	if err := s.m.Forward(step, tokens, s.cache, rowsFrom(0, len(tokens)), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func someTokens(m *Model, n int, seed uint64) []int32 {
	g := rand.New(rand.NewPCG(seed, 3))
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(g.IntN(m.cfg.Vocab))
	}
	return out
}

// eachConsistent runs a test on every model, backend and type of matrices that
// takes a path of its own there. The reference computes row by row and in one thread:
// it is left out.
func eachConsistent(t *testing.T, test func(t *testing.T, load func(threads int) *Model)) {
	eachConsistentType(t, func(t *testing.T, _ kernel.Type, load func(threads int) *Model) { test(t, load) })
}

// eachConsistentType tells the test the type of the matrices too.
func eachConsistentType(t *testing.T, test func(t *testing.T, typ kernel.Type, load func(threads int) *Model)) {
	for _, name := range tinyModels {
		for _, k := range makers(t)[1:] {
			if k.name == "portable" && name != "tiny-qwen35moe" {
				continue // slow; this model has every kind of layer
			}
			for _, typ := range k.types {
				f := openAs(t, name, typ)
				t.Run(fmt.Sprintf("%s/type %d/%s", name, typ, k.name), func(t *testing.T) {
					test(t, typ, func(threads int) *Model { return loadOn(t, f, k.make(t, threads)) })
				})
			}
		}
	}
}

// TestBatchIsBitEqual: eight sequences of different lengths, first prefilled in one
// mixed step, then decoded together, give the bits that each gives alone.
// The pages of the batch are of another size too.
func TestBatchIsBitEqual(t *testing.T) {
	eachConsistent(t, func(t *testing.T, load func(threads int) *Model) {
		m := load(1)
		shared := newCache(t, m, 64, sequencePages(64), sequencesMax, kernel.KVF16)
		var together []*sequence
		var prompts [][]int32
		for i := range sequencesMax {
			together = append(together, newSequence(t, m, shared, i, 64))
			prompts = append(prompts, someTokens(m, 3+i, uint64(i)))
		}
		got := feedAll(t, m, shared, together, prompts)
		var last []int32
		for i := range prompts {
			last = append(last, int32(i+1))
		}
		more := feedAll(t, m, shared, together, [][]int32{last[0:1], last[1:2], last[2:3], last[3:4], last[4:5], last[5:6], last[6:7],
			last[7:8]})
		for i, p := range prompts {
			alone := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16), 7-i, 16)
			sameBits(t, fmt.Sprintf("prefill of sequence %d", i), got[i], alone.feed(t, p))
			sameBits(t, fmt.Sprintf("decode of sequence %d", i), more[i], alone.feed(t, last[i:i+1]))
		}
	})
}

// feedAll computes the next tokens of several sequences in one step.
func feedAll(t *testing.T, m *Model, cache kernel.Cache, all []*sequence, tokens [][]int32) [][][]float32 {
	t.Helper()
	step := &kernel.Step{}
	var flat []int32
	var out [][][]float32
	var logits [][]float32
	for i, s := range all {
		step.Spans = append(step.Spans, s.span(step.Rows, len(tokens[i])))
		step.Rows += len(tokens[i])
		flat = append(flat, tokens[i]...)
		out = append(out, rows(m, len(tokens[i])))
		logits = append(logits, out[i]...)
	}
	if err := m.Forward(step, flat, cache, rowsFrom(0, step.Rows), logits); err != nil {
		t.Fatal(err)
	}
	return out
}

func sameBits(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range got {
		for j := range got[i] {
			if math.Float32bits(got[i][j]) != math.Float32bits(want[i][j]) {
				t.Fatalf("%s: logit %d of row %d is %g, want the bits of %g", what, j, i, got[i][j], want[i][j])
			}
		}
	}
}

// TestThreadsAreBitEqual: one thread and two give the same bits, in prefill and decode.
func TestThreadsAreBitEqual(t *testing.T) {
	eachConsistent(t, func(t *testing.T, load func(threads int) *Model) {
		var want [][]float32
		for _, threads := range []int{1, 2} {
			m := load(threads)
			s := newSequence(t, m, newCache(t, m, 32, sequencePages(32), sequencesMax, kernel.KVF16), 0, 32)
			tokens := someTokens(m, 23, 6)
			got := append(s.feed(t, tokens[:22]), s.feed(t, tokens[22:])...)
			if threads > 1 {
				sameBits(t, "two threads", got, want)
			}
			want = got
		}
	})
}

// TestKVTypesAreBitEqual: with each type of K and V, one step, chunks that cut
// through tiles and pages, two threads and another page size give the same bits.
func TestKVTypesAreBitEqual(t *testing.T) {
	for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVF32, kernel.KVQ8} {
		for _, k := range makers(t)[1:] {
			if k.name == "portable" && kv != kernel.KVQ8 {
				continue // slow; the others differ from it in storage only
			}
			t.Run(fmt.Sprintf("%s/%s", kv, k.name), func(t *testing.T) {
				f := openAs(t, "tiny-qwen3", kernel.Q8_0)
				m, two := loadOn(t, f, k.make(t, 1)), loadOn(t, f, k.make(t, 2))
				tokens := someTokens(m, 40, 5)
				want := newSequence(t, m, newCache(t, m, 16, sequencePages(16), 1, kv), 0, 16).feed(t, tokens)
				for i, cut := range [][]int{{40}, {7, 9, 16, 1, 1, 6}} {
					page := []int{64, 32}[i]
					s := newSequence(t, two, newCache(t, two, page, sequencePages(page), 1, kv), 0, page)
					for _, n := range cut {
						at := s.pos
						sameBits(t, fmt.Sprintf("cut %v, position %d", cut, at), s.feed(t, tokens[at:at+n]), want[at:at+n])
					}
				}
			})
		}
	}
}

// TestRowsOfLogits: asking for some rows gives the bits of asking for all, in the order asked;
// asking for none leaves the same cache behind.
func TestRowsOfLogits(t *testing.T) {
	eachConsistent(t, func(t *testing.T, load func(threads int) *Model) {
		m := load(1)
		tokens := someTokens(m, 9, 1)
		all := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16), 0, 16)
		want := all.feed(t, tokens)
		for _, ask := range [][]int32{{8}, {5, 2, 2}, {}} {
			s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16), 1, 16)
			got := rows(m, len(ask))
			step := &kernel.Step{Rows: 9, Spans: []kernel.Span{s.span(0, 9)}}
			if err := m.Forward(step, tokens, s.cache, ask, got); err != nil {
				t.Fatal(err)
			}
			for i, r := range ask {
				sameBits(t, fmt.Sprintf("rows %v", ask), got[i:i+1], want[r:r+1])
			}
			next := someTokens(m, 1, 2)
			undo := *all // a copy: the position does not advance for the others
			sameBits(t, fmt.Sprintf("after rows %v", ask), s.feed(t, next), forked(t, &undo).feed(t, next))
		}
	})
}

// forked continues s in another slot, so that s stays where it is. Pages are
// shared: what is written beyond the position is written again the same way.
func forked(t *testing.T, s *sequence) *sequence {
	t.Helper()
	f := *s
	if s.m.HasState() {
		f.slot = 6
		s.cache.CopyState(f.slot, s.slot)
	}
	return &f
}

// TestChunks: a prompt computed in pieces gives the bits of the whole, and so do generated
// tokens, unless a piece ends within a chunk of a recurrent layer: then the logits are nearly
// the same. So they are where what was generated is read again as a prompt.
func TestChunks(t *testing.T) {
	aligned, other := []int{64, 6}, []int{7, 9, 16, 33, 1, 1, 3}
	eachConsistentType(t, func(t *testing.T, typ kernel.Type, load func(threads int) *Model) {
		m := load(1)
		tokens, routes := someTokens(m, 70, 5), watchRoutes(m)
		compute := func(prompt bool, cut []int) (c computed) {
			s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16), 0, 16)
			s.prompt = prompt
			for _, n := range cut {
				c.logits = append(c.logits, s.feed(t, tokens[s.pos:s.pos+n])...)
				c.routes = append(c.routes, routes.take()...)
			}
			return c
		}
		var kinds []computed
		for _, prompt := range []bool{false, true} {
			whole := compute(prompt, []int{len(tokens)})
			kinds = append(kinds, whole)
			for _, cut := range [][]int{aligned, other} {
				what, pieces := fmt.Sprintf("prompt %v, cut %v", prompt, cut), compute(prompt, cut)
				if !m.HasState() || &cut[0] == &aligned[0] {
					sameBits(t, what, pieces.logits, whole.logits)
				} else {
					nearlyAll(t, what, typ, pieces, whole)
				}
			}
		}
		nearlyAll(t, "read as a prompt", typ, kinds[1], kinds[0])
	})
}

// computed is the logits of tokens and which experts their rows chose.
type computed struct {
	logits [][]float32
	routes [][]choice // nil without experts
}

// nearlyAll wants nearly the same logits. With quantized weights that ends where experts
// that nearly tied change places: from there on it is another model.
func nearlyAll(t *testing.T, what string, typ kernel.Type, got, want computed) {
	t.Helper()
	tolerance, same := 1e-3, len(want.logits)
	if typ != kernel.F16 {
		// Activations are rounded to 8 bits before each matrix: a last bit that
		// differs may become a code that differs, 1/127 of the largest beside it.
		tolerance = 0.25
		if d := meanDistance(t, got.logits, want.logits); !(d <= 0.03) {
			t.Fatalf("%s: logits differ by %g on average", what, d)
		}
		if want.routes != nil {
			var lead float32
			if same, lead = firstTurn(want.routes, got.routes); lead > 0.02 {
				t.Errorf("%s, position %d: experts that led by %g of all changed places", what, same, lead)
			}
		}
	}
	for i := range want.logits[:same] {
		nearlySame(t, fmt.Sprintf("%s, position %d", what, i), got.logits[i], want.logits[i], tolerance)
	}
}

func nearlySame(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	for j := range got {
		if d := math.Abs(float64(got[j]) - float64(want[j])); !(d <= tolerance) {
			t.Fatalf("%s: logit %d is %g, want %g within %g", what, j, got[j], want[j], tolerance)
		}
	}
	top := distribute(want, 2).Top
	if id := distribute(got, 1).Top[0].ID; id != top[0].ID && top[0].Logit-top[1].Logit > tolerance {
		t.Fatalf("%s: greedy token %d, want %d", what, id, top[0].ID)
	}
}

// TestStateCopy: a snapshot taken in mid-sequence and restored into another slot continues
// with the same bits, also after the first slot went on, was reset and released.
func TestStateCopy(t *testing.T) {
	eachConsistent(t, func(t *testing.T, load func(threads int) *Model) {
		m := load(1)
		if !m.HasState() {
			if m.BytesPerState(kernel.StateF32) != 0 {
				t.Fatalf("%d bytes per state of a model without", m.BytesPerState(kernel.StateF32))
			}
			return
		}
		tokens := someTokens(m, 20, 8)
		cache := newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16)
		s := newSequence(t, m, cache, 0, 16)
		s.feed(t, tokens[:12])
		snapshot := *s
		snapshot.slot = 5
		cache.CopyState(5, 0)
		want := s.feed(t, tokens[12:])
		cache.ResetState(0)
		restored := snapshot
		restored.slot = 3
		cache.CopyState(3, 5)
		sameBits(t, "restored", restored.feed(t, tokens[12:]), want)
		sameBits(t, "snapshot", snapshot.feed(t, tokens[12:]), want)
		fresh := newSequence(t, m, cache, 0, 16) // the slot is usable again
		fresh.feed(t, tokens[:12])
		sameBits(t, "reset", fresh.feed(t, tokens[12:]), want)
	})
}

// TestSaves: a step that saves the state after each of its first rows leaves what a step
// per token leaves, in its own slot and in the saved ones, and the same logits.
func TestSaves(t *testing.T) {
	eachConsistent(t, func(t *testing.T, load func(threads int) *Model) {
		m := load(2)
		if !m.HasState() {
			return
		}
		tokens := someTokens(m, 16, 9)
		cache := newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16)
		s := newSequence(t, m, cache, 0, 16)
		s.feed(t, tokens[:10])
		one := newSequence(t, m, cache, 1, 16)
		one.feed(t, tokens[:10])
		got := rows(m, 5)
		span := s.span(0, 5)
		span.Saves = []int32{3, 4, 5}
		if err := m.Forward(&kernel.Step{Rows: 5, Spans: []kernel.Span{span}}, tokens[10:15], cache, rowsFrom(0, 5), got); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			sameBits(t, fmt.Sprintf("row %d", i), got[i:i+1], one.feed(t, tokens[10+i:11+i]))
			if i < len(span.Saves) {
				saved := sequence{m: m, cache: cache, pages: s.pages, slot: span.Saves[i], pos: s.pos - 5 + i + 1}
				sameBits(t, fmt.Sprintf("after saved row %d", i), saved.feed(t, tokens[11+i:13+i]), forked(t, one).feed(t, tokens[11+i:13+i]))
			}
		}
		sameBits(t, "after all rows", s.feed(t, tokens[15:]), one.feed(t, tokens[15:]))
	})
}

// TestBytes: what the sizes promise is what a cache takes.
func TestBytes(t *testing.T) {
	for _, name := range tinyModels {
		for _, k := range makers(t) {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				m := loadOn(t, openParity(t, name+"-f16"), k.make(t, 1))
				for _, kv := range []kernel.KVType{kernel.KVF32, kernel.KVF16, kernel.KVQ8} {
					if kv != kernel.KVF32 && (k.name == "ref" || k.name == "portable") {
						continue // slow, and sizes are the same on all levels
					}
					cache := newCache(t, m, 16, sequencePages(16), sequencesMax, kv)
					newSequence(t, m, cache, 0, 16).feed(t, someTokens(m, 40, 1))
					pages, state := 3*m.BytesPerPage(16, kv), m.BytesPerState(kernel.StateF32)
					if got := cache.BytesUsed(); got < pages+state || got > pages+state+state/2 || state == 0 && got != pages {
						t.Errorf("%s: 3 pages and a state take %d bytes, want exactly %d and %d or a little more", kv, got, pages, state)
					}
				}
			})
		}
	}
}
