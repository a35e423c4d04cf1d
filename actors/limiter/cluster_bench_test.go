package limiter

import (
	"fmt"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// BenchmarkGranted is an admission that a grant covers, beside one of a limiter that owns its account.
func BenchmarkGranted(b *testing.B) {
	ask := limit.Ask{Prompt: 100, OutputMax: 100, Upper: 1000, Minimum: 500, Key: account.LimitedKey{ID: "k"}}
	b.Run("cluster", func(b *testing.B) {
		l := &clustered{id: "a", cell: &Cell{}, deps: ClusterDeps{Counts: &Counts{}, Lease: time.Hour,
			Propose: func(limit.Proposal, func(limit.Verdict, time.Time, *abi.Error)) error { return nil }}}
		v := verdict{asked: time.Now()}
		v.Grant = &limit.Grant{Number: 1, TokensPerMinute: 1 << 30, Life: time.Hour,
			Part: limit.Part{Permits: 1 << 30, Tokens: 1 << 50, Money: 1 << 60}}
		l.adopt(v, time.Now())
		k := &ticket{}
		b.ReportAllocs()
		for b.Loop() {
			k.got = nil
			if l.reserve(Reserve{ask, k}); k.got == nil {
				b.Fatal("not covered")
			}
		}
	})
	b.Run("alone", func(b *testing.B) {
		l := &limiter{id: "a", cell: &Cell{}, state: limit.New(account.Account{ID: "a", Unlimited: true}, limit.NewBucket(0, time.Now()))}
		k := &ticket{}
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			k.got = nil
			n++
			ask.RequestID = fmt.Sprint(n)
			if l.decide(Reserve{ask, k}); k.got == nil {
				b.Fatal("refused")
			}
			l.state.Leave(limit.Leave{RequestID: ask.RequestID}, time.Now())
			l.state.Settle(limit.Settle{RequestID: ask.RequestID})
		}
	})
}
