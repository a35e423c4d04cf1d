package engine

import (
	"testing"
	"time"

	"corenode/wasm/abi"
)

// TestComputedOfACanceledTurn: what a pin covers is said also of a turn that ends before
// its first token, when nothing of what it read from the cache is billed.
func TestComputedOfACanceledTurn(t *testing.T) {
	e, s := open2(t, options(CPU))
	beginning := `{"model":"m","max_tokens":4,"temperature":0,"system":"` + words(400) + `","messages":[{"role":"user","content":"`
	_, first := submit(t, s, "a", ask(t, e, beginning+`hi"}]}`))
	runAll(t, s)
	s.Release(first.result.Handle)
	j, turn := submit(t, s, "a", ask(t, e, beginning+words(900)+`"}]}`))
	s.Step(time.Now())
	j.Cancel()
	s.Step(time.Now())
	computed := turn.result.Computed
	if u := turn.result.Usage; u.CacheRead != 0 || u.InputUncached == 0 || int64(computed) <= u.InputUncached {
		t.Errorf("%d tokens have KV, billed %+v", computed, u)
	}
	if pinned := s.pool.Stats().PagesPinned * s.pool.Config().PageTokens; pinned == 0 || computed < pinned {
		t.Errorf("%d tokens have KV, the pin covers %d", computed, pinned)
	}
}

// TestNothingOfAForwardedPrefillStays: who asked the other node left before there was a first token, and it charges nothing. So the
// next one computes what that one had, and pays for it; what was cached before stays, and what the other node gave a client.
func TestNothingOfAForwardedPrefillStays(t *testing.T) {
	e, s := open2(t, options(CPU))
	beginning := `{"model":"m","max_tokens":4,"temperature":0,"system":"` + words(400) + `","messages":[{"role":"user","content":"`
	long := ask(t, e, beginning+words(900)+`"}]}`)
	found := func(account string, leaves, forwarded, given bool) int64 {
		t.Helper()
		submit(t, s, account, ask(t, e, beginning+`hi"}]}`))
		runAll(t, s)
		if leaves {
			j, _ := submitJob(t, s, &Job{ID: "r", Account: account, Request: long, Pin: true, Forwarded: forwarded})
			for j.Observed().InputUncached < int64(len(long.Prompt)*2/3) || given && j.Delivered().Output == 0 {
				s.Step(time.Now())
			}
			if u := j.Observed(); u.Output != 0 && !given {
				t.Fatalf("%+v, want a prefill under way", u)
			}
			j.Cancel()
			runAll(t, s)
		}
		_, next := submit(t, s, account, long)
		runAll(t, s)
		return next.result.Usage.CacheRead
	}
	before, forwarded := found("a", false, false, false), found("b", true, true, false)
	own, given := found("c", true, false, false), found("d", true, true, true)
	if before == 0 || forwarded != before || own <= before || given <= before {
		t.Errorf("%d tokens are cached without the one that left, %d after one of another node, %d after one of this node's, %d after a token",
			before, forwarded, own, given)
	}
	if err := s.pool.Check(); err != nil {
		t.Error(err)
	}
}

func TestCancelInEachPhase(t *testing.T) {
	o := options(CPU)
	o.Batch.SequencesMax = 1
	e, s := open2(t, o)
	long := ask(t, e, `{"model":"m","stream":true,"max_tokens":2000,"temperature":0,"messages":[{"role":"user","content":"`+words(900)+`"}]}`)

	decoding, a := submit(t, s, "a", long)
	for decoding.Observed().Output == 0 {
		s.Step(time.Now())
	}
	queued, b := submit(t, s, "b", long)
	s.Step(time.Now())
	queued.Cancel()
	decoding.Cancel()
	s.Step(time.Now())
	if b.result.Usage != (abi.Usage{}) || b.result.Err.Kind != abi.Canceled {
		t.Errorf("canceled in the queue: %+v", b.result)
	}
	if u := a.result.Usage; u.InputUncached != int64(len(long.Prompt)) || u.Output < 1 || u.Output > 4 {
		t.Errorf("canceled in decode: %+v", u)
	}
	prefilling, c := submit(t, s, "c", long)
	s.Step(time.Now())
	if got := prefilling.Observed(); got.InputUncached == 0 || got.Output != 0 {
		t.Fatalf("after one step of a long prompt: %+v", got)
	}
	prefilling.Cancel()
	s.Step(time.Now())
	if u := c.result.Usage; u.InputUncached <= 0 || u.InputUncached >= int64(len(long.Prompt)) || u.Output != 0 {
		t.Errorf("canceled in prefill: %+v of %d", u, len(long.Prompt))
	}
	if len(s.order) != 0 {
		t.Errorf("%d runs are left", len(s.order))
	}
	if err := s.pool.Check(); err != nil {
		t.Error(err)
	}
}
