package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"corenode/engine/keep"
	"corenode/engine/kernel"
	"corenode/engine/kv"
)

// turn answers one request greedily and returns its text and what was cached.
func turn(t *testing.T, e *Engine, s *Stepper, account, messages string, tokens int) (text string, cached int64) {
	t.Helper()
	_, a := submit(t, s, account, ask(t, e, fmt.Sprintf(`{"model":"m","max_tokens":%d,"temperature":0,"messages":[%s]}`, tokens, messages)))
	runAll(t, s)
	var b strings.Builder
	for _, ev := range a.events {
		b.WriteString(ev.Text)
	}
	return b.String(), a.result.Usage.CacheRead
}

// TestKeptCacheAnswersAsBefore: a new stepper with what the old one kept answers the next
// turn to the token and hits as much; of recurrent models too, and with 8-bit K and V. Another
// account hits nothing.
func TestKeptCacheAnswersAsBefore(t *testing.T) {
	for _, c := range []struct {
		file string
		kv   kernel.KVType
	}{{"tiny-qwen35moe-f16", kernel.KVF16}, {"tiny-qwen3-f16", kernel.KVQ8}, {"tiny-qwen3-f16", kernel.KVF32}} {
		data, err := os.ReadFile("model/testdata/parity/" + c.file + ".gguf")
		if err != nil {
			t.Fatal(err)
		}
		o := options(CPU)
		o.Data, o.Cache.KV, o.ContextLength = data, c.kv, 8192
		e, s := open2(t, o)
		first := `{"role":"user","content":"` + words(120) + `"}`
		second := first + `,{"role":"assistant","content":"ok"},{"role":"user","content":"` + words(9) + `"}`
		turn(t, e, s, "alice", first, 24)
		var kept bytes.Buffer
		if pages, err := s.Keep(&kept, 32<<20); err != nil || pages < 8 {
			t.Fatalf("%s: %d pages kept, %v", c.file, pages, err)
		}
		wantText, wantCached := turn(t, e, s, "alice", second, 24)

		e2, s2 := open2(t, o)
		read, err := s2.Restore(bytes.NewReader(kept.Bytes()), int64(kept.Len()))
		if err != nil || read.Pages < 8 || s2.pool.Hybrid() != (read.Snapshots > 0) {
			t.Fatalf("%s: restored %+v, %v", c.file, read, err)
		}
		if err := s2.pool.Check(); err != nil {
			t.Fatal(err)
		}
		if _, cached := turn(t, e2, s2, "bob", second, 24); cached != 0 {
			t.Errorf("%s: another account hits %d tokens", c.file, cached)
		}
		text, cached := turn(t, e2, s2, "alice", second, 24)
		if text != wantText || cached != wantCached || cached < 100 {
			t.Errorf("%s: %d cached, want %d; %q, want %q", c.file, cached, wantCached, text, wantText)
		}
	}
}

// TestKeptCacheOfAnotherModelIsLeft: another file, another type of K and V and a cut stream
// leave a stepper as it was.
func TestKeptCacheOfAnotherModelIsLeft(t *testing.T) {
	e, s := open2(t, options(CPU))
	turn(t, e, s, "alice", `{"role":"user","content":"`+words(120)+`"}`, 24)
	var kept bytes.Buffer
	if _, err := s.Keep(&kept, 32<<20); err != nil {
		t.Fatal(err)
	}
	patched := options(CPU)
	patched.Data = slices.Clone(patched.Data)
	patched.Data[len(patched.Data)-3] ^= 1
	other := options(CPU)
	other.Cache.KV = kernel.KVQ8
	for name, c := range map[string]struct {
		o    Options
		data []byte
		want error
	}{
		"another file": {patched, kept.Bytes(), keep.ErrOther},
		"another type": {other, kept.Bytes(), keep.ErrOther},
		"cut":          {options(CPU), kept.Bytes()[:kept.Len()-1], keep.ErrDamaged},
		"empty":        {options(CPU), nil, keep.ErrDamaged},
		"nothing kept": {options(Instant), kept.Bytes(), ErrNoMemory},
	} {
		_, s := open2(t, c.o)
		if _, err := s.Restore(bytes.NewReader(c.data), int64(len(c.data))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if st := s.pool.Stats(); st.PagesCached > 0 || st.Snapshots > 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestKeepDoesWhatIsOwed: a snapshot that the next step would have copied is written as copied.
func TestKeepDoesWhatIsOwed(t *testing.T) {
	e, s := open2(t, options(CPU))
	turn(t, e, s, "alice", `{"role":"user","content":"`+words(120)+`"}`, 24)
	snapshot := s.pool.Keep(1 << 30)
	at := slices.IndexFunc(snapshot, func(k kv.Kept) bool { return k.State != kv.NoState })
	memory := s.cache.(kernel.Memory)
	s.owe([]kv.StateOp{{Dst: snapshot[at].State, Src: kv.NoState}})
	var kept bytes.Buffer
	if _, err := s.Keep(&kept, 32<<20); err != nil {
		t.Fatal(err)
	}
	for _, piece := range memory.StateMemory(snapshot[at].State) {
		if slices.ContainsFunc(piece, func(b byte) bool { return b != 0 }) {
			t.Fatal("a reset that was owed is not done")
		}
	}
}
