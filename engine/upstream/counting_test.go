package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine/messages"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// startHung starts servers that pass their probes, and count no other prompt: they say that they are asked, and nothing else.
func startHung(t *testing.T, n int) (all []*fake.Server, asked chan struct{}) {
	asked = make(chan struct{}, 1000)
	block := make(chan struct{})
	for range n {
		s := start(t, wire.VLLM, plainAnswer)
		s.Tokens = func(body []byte) int {
			if bytes.Contains(body, []byte("one two")) {
				asked <- struct{}{}
				<-block
			}
			return 1
		}
		all = append(all, s)
	}
	t.Cleanup(func() { close(block) })
	return all, asked
}

func helloRequest(t *testing.T) *messages.Request {
	t.Helper()
	q, err := messages.Parse(fmt.Appendf(nil, helloBody, ""))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestCountsAreBounded: while a model's servers do not answer, its other requests are refused, and one that ends makes room.
func TestCountsAreBounded(t *testing.T) {
	m := open(t, wire.VLLM, nil, start(t, wire.VLLM, plainAnswer))
	if !m.Asks() {
		t.Fatal("it asks nobody")
	}
	for computes, counts := range map[int]int{1: countsMin, 300: 300} {
		m := open(t, wire.VLLM, func(o *Options) { o.ConnectionsMax = computes }, start(t, wire.VLLM, plainAnswer))
		if got := cap(m.counting); got != counts {
			t.Errorf("%d are counted at once where a server computes %d, want %d", got, computes, counts)
		}
	}
	prepare := func() error { _, err := m.Prepare("a", helloRequest(t)); return err }
	count := func() error { _, err := m.Count(helloRequest(t)); return err }
	for name, f := range map[string]func() error{"prepare": prepare, "count": count} {
		for range cap(m.counting) {
			m.counting <- struct{}{}
		}
		var refusal *abi.Error
		if err := f(); !errors.As(err, &refusal) || refusal.Kind != abi.Overloaded || refusal.RetryAfter == 0 {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
		for range cap(m.counting) {
			<-m.counting
		}
		if err := f(); err != nil || len(m.counting) != 0 {
			t.Errorf("%s: %v, %d places are taken", name, err, len(m.counting))
		}
	}
	if own := open(t, wire.VLLM, func(o *Options) { o.Counter = fixedCounter(1) }, start(t, wire.VLLM, plainAnswer)); own.Asks() {
		t.Error("a model with a tokenizer asks")
	}
}

// TestCountEndsWithItsRequest: a server that lets a request wait in vain is no reason to ask the next, nor at fault, where nobody waits.
func TestCountEndsWithItsRequest(t *testing.T) {
	hung, asked := startHung(t, 2)
	m := open(t, wire.VLLM, nil, hung...)
	q := helloRequest(t)
	var cancel context.CancelFunc
	q.Context, cancel = context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := m.Count(q); err == nil {
		t.Error("it is counted")
	}
	if n := len(asked); n != 0 || m.counts.Failures.Load() != 0 {
		t.Errorf("%d more servers are asked, %d failures", n, m.counts.Failures.Load())
	}
}

// TestHungCountTakesAServerOut: a server that passes its probes and counts nothing in time is asked no more while another one is up.
func TestHungCountTakesAServerOut(t *testing.T) {
	all, _ := startHung(t, 1)
	hung, other := all[0], start(t, wire.VLLM, plainAnswer)
	m := open(t, wire.VLLM, nil, hung, other)
	waitFor(t, "both to be up", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !slices.ContainsFunc(m.set.States(time.Now()), func(s route.State) bool { return !s.Up })
	})
	m.options.CountTimeout = time.Millisecond // the probes have asked
	body := []byte(`{"model":"far","messages":[{"role":"user","content":"one two"}]}`)
	for range 5 {
		if _, err := m.countWithin(t.Context(), m.replicas[hung.URL], body, nil); err == nil {
			t.Fatal("it counts")
		}
	}
	if n := m.counts.Ejections[ReasonStall].Load(); n != 1 {
		t.Errorf("it is taken out %d times", n)
	}
	if all := m.urls(); len(all) != 1 || all[0].base != other.URL {
		t.Errorf("%d servers are asked for a count", len(all))
	}
}
