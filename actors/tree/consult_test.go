package tree

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/wasm/abi"
)

// TestRefusalsSayWhatWasAsked: what modules took before a refusal is told with it, and which servers were asked, of a request whose
// trace records it.
func TestRefusalsSayWhatWasAsked(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 1000)
		w.policy.takes = 3 * time.Millisecond
		deny := abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: "no"}
		for _, decision := range []*abi.Decision{&deny, {}} { // the limiter refuses what the policy lets through
			w.policy.decision.Store(decision)
			for _, record := range []bool{true, false} {
				c := w.call(a, "one", 1000, 1000, true)
				c.Request.Trace.Record = record
				_, err := w.play(c)
				refused, ok := errors.AsType[*account.Refused](err)
				if ok != record || ok && (refused.Settled.Verdict != w.policy.takes || refused.Settled.Billing == "") {
					t.Errorf("%v, with what was asked: %+v", err, refused)
				}
			}
		}
		w.policy.decision.Store(nil)
		r := &request{call: w.call(a, "one", 1, 1, true), quoteTook: time.Millisecond}
		r.call.Request.Trace.Record = true
		cause := errors.New("all failed")
		err := r.asked(&abi.Error{Kind: abi.Overloaded, Err: &engine.Tried{Attempts: []engine.Attempt{{Replica: "a"}}, Err: cause}})
		refused, ok := errors.AsType[*account.Refused](err)
		if !ok || len(refused.Settled.Attempted) != 1 || refused.Settled.Quote != time.Millisecond || !errors.Is(err, cause) ||
			refused.Error() != cause.Error() {
			t.Errorf("%+v", refused)
		}
		if err := r.asked(&abi.Error{Kind: abi.Overloaded}); err.Kind != abi.Overloaded || err.Err.Error() == "" {
			t.Errorf("without a cause: %+v", err)
		}
	})
}

// TestPriorityOfANode: a request that another node forwards waits with the priority that it has there.
func TestPriorityOfANode(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 1000)
		for peer, want := range map[account.Peer]int8{account.ClusterPeer(): 7, account.KeyPeer("one"): 7, {}: 0} {
			c := w.call(a, "one", 10, 5, true)
			c.Peer, c.Priority = peer, 7
			s, _, err := w.tree.Generate(c)
			if err != nil || s.r.job.Priority != want {
				t.Fatalf("%+v: %v", peer, err)
			}
			w.read(s)
			if _, err := settled(s); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPolicy: what the operator's policy says is done, and what it is told is true.
func TestPolicy(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 1000)
		a.Concurrency, a.TokensPerMinute = 3, 60_000
		w.set(a, 1000)
		decide := func(d abi.Decision) { w.policy.decision.Store(&d) }

		decide(abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, RetryAfterMS: 2500, Msg: "not on weekends"})
		c := w.call(a, "one", 10, 5, true)
		c.Protocol = "chat"
		_, err := w.play(c)
		if e := abi.AsError(err); e.Kind != abi.RateLimited || e.RetryAfter != 2500*time.Millisecond || e.Msg != "not on weekends" {
			t.Errorf("denied with %+v", e)
		}
		in := w.policy.asked.Load()
		want := abi.AdmissionInput{At: time.Now().Unix(), PromptTokens: 10, OutputMax: 5, Stream: true, Account: a.ID, Key: "key",
			Model: "one", Protocol: "chat", Counters: abi.Counters{AccountRequestsMax: 3, TokensRemaining: 60_000,
				TokensPerMinute: 60_000, Available: 1000, NodeRequestsMax: 4096,
				ModelQueued: 3, ModelQueuedMax: 9, ModelWaitMS: 1500, ModelPagesUsed: 5, ModelPages: 7}}
		if *in != want {
			t.Errorf("the policy was told\n%+v, want\n%+v", *in, want)
		}

		decide(abi.Decision{Msg: "fail"})
		if _, err := w.play(w.call(a, "one", 10, 5, true)); abi.KindOf(err) != abi.Overloaded {
			t.Errorf("a failing policy: %v", err)
		}

		decide(abi.Decision{Verdict: abi.Queue, Priority: -3})
		s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
		if err != nil || s.r.job.Priority != -3 {
			t.Fatalf("queued: %v", err)
		}
		synctest.Wait()
		decide(abi.Decision{})
		if _, err := w.play(w.call(a, "one", 10, 5, true)); err != nil {
			t.Errorf("allowed: %v", err)
		}
		used := w.policy.asked.Load().Counters
		if used.AccountRequests != 1 || used.NodeRequests != 1 || used.Available != 1000-70 || used.TokensRemaining >= 60_000 {
			t.Errorf("beside a running request the policy was told %+v", used)
		}
		if err := <-s.Held(); err != nil {
			t.Fatal(err)
		}
		w.read(s)
		if _, err := w.settle(s); err != nil {
			t.Fatal(err)
		}
		w.policy.decision.Store(nil)
		w.checkClean(a)

		decide(abi.Decision{})
		w.store.failing.Store(true)
		b := plain
		b.ID = "acct-cold"
		w.set(b, 1000)
		_, err = w.play(w.call(b, "one", 10, 5, true))
		if e := abi.AsError(err); e.Kind != abi.Overloaded || e.RetryAfter != time.Second {
			t.Errorf("an account that cannot be read: %+v, want it overloaded", e)
		}
	})
}
