package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"corenode/engine/kernel"
)

// shadow stands between a Stepper and its model. It keeps its own books of
// what every position of every page and every state slot holds, by the
// account that wrote it and a hash of all tokens up to there, and stops the
// test when a sequence is about to read anything but its own prefix. So it
// finds a stale page, a wrong snapshot and another account's page without
// trusting kv or sched. It also copies the logits that each job samples from.
type shadow struct {
	t      testing.TB
	s      *Stepper
	model  Forwarder    // closed with the engine
	memory kernel.Cache // of model
	// dream makes logits from the hash of a sequence's tokens, without the model: for storms.
	dream bool

	pageTokens int
	hybrid     bool
	cells      map[cell]mark
	layer      map[cell]mark // the prediction layer's part of each position
	foretold   int           // positions whose owner was checked for a prediction
	states     map[int32]mark
	traces     map[*Job]*trace
	hits       int // sequences that began after a cached prefix
	reads      int // positions whose owner was checked
	drafted    int // tokens computed for drafts
}

// cell is one position of a page.
type cell struct {
	page   int32
	offset int
}

// mark says what memory holds; the zero mark is a state before any token.
type mark struct {
	account string
	hash    uint64
}

// trace is what one job computed.
type trace struct {
	run      *run
	hashes   []uint64    // hashes[i] is that of the tokens before position i
	rows     [][]float32 // the logits of each sampled token; see logits
	reached  int         // positions computed so far, at the most, without drafts
	restarts int         // times it went back
}

// watch puts a shadow under a new stepper, before its first step.
func watch(t testing.TB, e *Engine, s *Stepper) *shadow {
	t.Helper()
	sh := &shadow{
		t: t, s: s, model: e.forwarder, memory: s.cache, pageTokens: e.options.Cache.PageTokens, hybrid: e.memory.states > 0,
		cells: map[cell]mark{}, layer: map[cell]mark{}, states: map[int32]mark{}, traces: map[*Job]*trace{},
	}
	e.forwarder, s.cache = sh, shadowCache{sh}
	return sh
}

// Close closes the model.
func (sh *shadow) Close() { sh.model.Close() }

// Forward checks what the step reads, notes what it writes, and computes it.
func (sh *shadow) Forward(step *kernel.Step, tokens []int32, _ kernel.Cache, logitRows []int32, logits [][]float32) error {
	owners := make([]*trace, 0, len(step.Spans))
	hashes := make([][]uint64, 0, len(step.Spans))
	for _, sp := range step.Spans {
		tr := sh.owner(sp)
		if err := errors.Join(sh.checkTokens(tr, sp, tokens[sp.Row:sp.Row+sp.Len]), sh.checkReads(tr, sp)); err != nil {
			sh.t.Fatal(err)
		}
		owners = append(owners, tr)
		hashes = append(hashes, chained(tr.hashes[sp.Pos], tokens[sp.Row:sp.Row+sp.Len]))
	}
	for i, sp := range step.Spans {
		sh.write(owners[i], sp, hashes[i])
	}
	if !sh.dream {
		if err := sh.model.Forward(step, tokens, sh.memory, logitRows, logits); err != nil {
			return err
		}
	}
	for i, row := range logitRows {
		at := slices.IndexFunc(step.Spans, func(sp kernel.Span) bool { return int(row) < sp.Row+sp.Len })
		tr, sp := owners[at], step.Spans[at]
		if sh.dream {
			dreamt(logits[i], tokens[row], hashes[at][int(row)-sp.Row])
			continue
		}
		n := sp.Pos + int(row) - sp.Row + 1 - tr.run.seq.Prompt // the answer's tokens before it
		tr.rows = append(tr.rows[:min(n, len(tr.rows))], slices.Clone(logits[i]))
	}
	return nil
}

// checkTokens: a span computes tokens that its sequence has, and then its draft. It is
// of the prompt altogether or not at all, and says so.
func (sh *shadow) checkTokens(tr *trace, sp kernel.Span, tokens []int32) error {
	q := &tr.run.seq
	own := min(sp.Len, len(q.Tokens)-sp.Pos)
	drafted := tokens[own:]
	sh.drafted += len(drafted)
	switch {
	case q.Computed() != sp.Pos || own < 1 || !slices.Equal(tokens[:own], q.Tokens[sp.Pos:sp.Pos+own]):
		return fmt.Errorf("a span at %d of a sequence that has computed %d of %d, or other tokens than its own", sp.Pos, q.Computed(), len(q.Tokens))
	case len(drafted) > len(q.Draft) || !slices.Equal(drafted, q.Draft[:len(drafted)]) || len(drafted) > 0 && own > 1:
		return fmt.Errorf("a span of %d tokens and then %v of a draft %v", own, drafted, q.Draft)
	case sp.Prompt != (sp.Pos < q.Prompt) || sp.Prompt && sp.Pos+sp.Len > q.Prompt:
		return fmt.Errorf("a span of %d tokens at %d of a sequence with a prompt of %d, flagged as prompt: %v", sp.Len, sp.Pos, q.Prompt, sp.Prompt)
	case sh.hybrid && len(sp.Saves) != len(drafted):
		return fmt.Errorf("%d states are saved for %d drafted tokens", len(sp.Saves), len(drafted))
	}
	return nil
}

// chained are the hashes after each of tokens.
func chained(hash uint64, tokens []int32) []uint64 {
	out := make([]uint64, len(tokens))
	for i, id := range tokens {
		hash = mix(hash, uint64(id)+1)
		out[i] = hash
	}
	return out
}

// logits are those that each token was sampled from: a draft that was not kept
// may have left more.
func (tr *trace) logits() [][]float32 { return tr.rows[:min(len(tr.rows), tr.run.produced)] }

// owner finds whose page table a span carries: by identity, since equal
// prompts of two accounts look the same.
func (sh *shadow) owner(sp kernel.Span) *trace {
	table := reflect.ValueOf(sp.Pages).Pointer()
	for _, r := range sh.s.order {
		pages := reflect.ValueOf(&r.seq).Elem().FieldByName("table").FieldByName("Pages")
		if r.seq.Running() && pages.Pointer() == table {
			return sh.trace(r)
		}
	}
	sh.t.Fatalf("the table of a span at %d belongs to no running sequence", sp.Pos)
	return nil
}

// trace returns the books of a run, with hashes for all tokens it has.
func (sh *shadow) trace(r *run) *trace {
	tr := sh.traces[r.job]
	if tr == nil {
		tr = &trace{run: r, hashes: []uint64{0}}
		sh.traces[r.job] = tr
	}
	for i := len(tr.hashes) - 1; i < len(r.seq.Tokens); i++ {
		tr.hashes = append(tr.hashes, mix(tr.hashes[i], uint64(r.seq.Tokens[i])+1))
	}
	return tr
}

// checkReads compares what the pages and the state of a span hold with what
// its sequence must find there.
func (sh *shadow) checkReads(tr *trace, sp kernel.Span) error {
	account := tr.run.job.Account
	for p := range sp.Pos {
		at := cell{sp.Pages[p/sh.pageTokens], p % sh.pageTokens}
		if got, want := sh.cells[at], (mark{account, tr.hashes[p+1]}); got != want {
			return fmt.Errorf("position %d of a sequence of account %q reads %+v from %+v, want %+v", p, account, got, at, want)
		}
	}
	sh.reads += sp.Pos
	if !sh.hybrid {
		return nil
	}
	want := mark{}
	if sp.Pos > 0 {
		want = mark{account, tr.hashes[sp.Pos]}
	}
	if got, ok := sh.states[sp.State]; !ok || got != want {
		return fmt.Errorf("state %d at position %d of account %q is %+v (set: %v), want %+v", sp.State, sp.Pos, account, got, ok, want)
	}
	return nil
}

func (sh *shadow) write(tr *trace, sp kernel.Span, hashes []uint64) {
	account := tr.run.job.Account
	for i, hash := range hashes {
		p := sp.Pos + i
		sh.cells[cell{sp.Pages[p/sh.pageTokens], p % sh.pageTokens}] = mark{account, hash}
	}
	if sh.hybrid {
		for i, slot := range sp.Saves {
			sh.states[slot] = mark{account, hashes[i]}
		}
		sh.states[sp.State] = mark{account, hashes[sp.Len-1]}
	}
	switch {
	case tr.reached == 0 && sp.Pos > 0:
		sh.hits++
	case sp.Pos < tr.reached:
		tr.restarts++
	}
	tr.reached = max(tr.reached, min(sp.Pos+sp.Len, len(tr.run.seq.Tokens)))
}

// shadowCache follows the states that the step loop moves.
type shadowCache struct{ *shadow }

func (c shadowCache) ResetState(slot int32) {
	c.states[slot] = mark{}
	c.memory.ResetState(slot)
}

func (c shadowCache) CopyState(dst, src int32) {
	if _, ok := c.states[src]; !ok {
		c.t.Fatalf("state %d is copied and was never set", src)
	}
	c.states[dst] = c.states[src]
	c.memory.CopyState(dst, src)
}

func (c shadowCache) BytesUsed() int64 { return c.memory.BytesUsed() }

func (c shadowCache) Close() { c.memory.Close() }

// mix is the finalizer of splitmix64 over a chained value.
func mix(h, x uint64) uint64 {
	h = (h ^ x*0x9e3779b97f4a7c15) + 0x632be59bd9b4e019
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Predicts says whether the model below has a prediction layer.
func (sh *shadow) Predicts() bool {
	p, ok := sh.model.(predictionLayer)
	return ok && p.Predicts()
}

// Remember notes what the prediction layer stores. Rows that are not kept have
// marks that no sequence asks for.
func (sh *shadow) Remember(step *kernel.Step, next []int32, _ kernel.Cache) error {
	for _, sp := range step.Spans {
		tr := sh.owner(sp)
		own := min(sp.Len, len(tr.run.seq.Tokens)-sp.Pos) // the others are of its draft
		hashes := append(slices.Clone(tr.hashes[sp.Pos+1:sp.Pos+own+1]), chained(tr.hashes[sp.Pos+own], tr.run.seq.Draft[:sp.Len-own])...)
		for i, hash := range hashes {
			p := sp.Pos + i
			sh.layer[cell{sp.Pages[p/sh.pageTokens], p % sh.pageTokens}] = mark{tr.run.job.Account, hash}
			following, known := next[sp.Row+i], p+1 < len(tr.run.seq.Tokens)
			if known && following != tr.run.seq.Tokens[p+1] {
				return fmt.Errorf("position %d is said to be followed by %d, not %d", p, following, tr.run.seq.Tokens[p+1])
			}
		}
	}
	if sh.dream {
		return nil
	}
	return sh.model.(predictionLayer).Remember(step, next, sh.memory)
}

// Predict checks that every position it reads was remembered for the same tokens
// of the same account, or is its own draft.
func (sh *shadow) Predict(step *kernel.Step, rows, tokens []int32, _ kernel.Cache, logits [][]float32) error {
	for i, sp := range step.Spans {
		tr := sh.owner(sp)
		q, account := &tr.run.seq, tr.run.job.Account
		drafted, _ := tr.run.layerDrafter.Draft()
		if sp.Pos != q.Computed()-1+len(drafted) || (tokens == nil) != (len(drafted) == 0) || tokens != nil &&
			tokens[i] != drafted[len(drafted)-1] {
			return fmt.Errorf("a prediction at %d with %v, of a sequence that has computed %d and drafted %v", sp.Pos, tokens, q.Computed(), drafted)
		}
		want := append(slices.Clone(tr.hashes[1:q.Computed()+1]), chained(tr.hashes[q.Computed()+1], drafted)...)
		at := func(p int) cell { return cell{sp.Pages[p/sh.pageTokens], p % sh.pageTokens} }
		if tokens != nil {
			sh.layer[at(sp.Pos)] = mark{account, want[sp.Pos]}
		}
		for p := range sp.Pos + 1 {
			if got := sh.layer[at(p)]; got != (mark{account, want[p]}) {
				return fmt.Errorf("a prediction at %d reads %+v at %d, want that of account %q", sp.Pos, got, p, account)
			}
		}
		sh.foretold += sp.Pos
		if sh.dream {
			dreamLayer(logits[i], append(slices.Clone(q.Tokens), drafted...))
		}
	}
	if sh.dream {
		return nil
	}
	return sh.model.(predictionLayer).Predict(step, rows, tokens, sh.memory, logits)
}

// dreamt makes one token certain, a function of all tokens before it: for one
// hash in five of the hash, else of the last token, which makes answers repeat
// themselves and drafts right now and then.
func dreamt(logits []float32, last int32, hash uint64) {
	clear(logits)
	logits[dreamtToken(len(logits), last, hash)] = 1000
}

// dreamLayer predicts what dreamt will say, and for one hash in six something else.
func dreamLayer(logits []float32, tokens []int32) {
	hashes := chained(0, tokens)
	hash, last := hashes[len(hashes)-1], tokens[len(tokens)-1]
	if hash%6 == 0 {
		hash++
	}
	dreamt(logits, last, hash)
}

func dreamtToken(vocab int, last int32, hash uint64) int32 {
	if hash%5 == 0 {
		return int32(hash / 5 % uint64(vocab))
	}
	return int32(mix(7, uint64(last)%16) % uint64(vocab))
}

// TestShadowSeesForeignMemory: the oracle of the tests here is not blind.
func TestShadowSeesForeignMemory(t *testing.T) {
	e, s := open2(t, options(CPU))
	sh := watch(t, e, s)
	j, _ := submit(t, s, "a", ask(t, e, body))
	runAll(t, s)
	tr := sh.traces[j]
	sp := kernel.Span{Pos: 20, Len: 1, Pages: []int32{100, 101}, State: 0}
	for p := range 20 {

		sh.cells[cell{sp.Pages[p/16], p % 16}] = mark{"a", tr.hashes[p+1]}
	}
	sh.states[0] = mark{"a", tr.hashes[20]}
	if err := sh.checkReads(tr, sp); err != nil {
		t.Fatalf("its own pages: %v", err)
	}
	for name, spoil := range map[string]func(){
		"another account's page": func() { sh.cells[cell{101, 2}] = mark{"b", tr.hashes[19]} },
		"other tokens":           func() { sh.cells[cell{100, 0}] = mark{"a", tr.hashes[2]} },
		"a state too old":        func() { sh.states[0] = mark{"a", tr.hashes[19]} },
		"a fresh state":          func() { sh.states[0] = mark{} },
		"an unset state":         func() { delete(sh.states, 0) },
	} {
		cells, state := [2]mark{sh.cells[cell{101, 2}], sh.cells[cell{100, 0}]}, sh.states[0]
		spoil()
		if sh.checkReads(tr, sp) == nil {
			t.Errorf("%s goes unseen", name)
		}
		sh.cells[cell{101, 2}], sh.cells[cell{100, 0}], sh.states[0] = cells[0], cells[1], state
	}
}
