package main

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"corenode/bench/fake"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/config"
)

// hanging is a server that says so many tokens and then waits for an hour.
func hanging(tokens int) func(int, []byte) fake.Script {
	return func(int, []byte) fake.Script {
		s := fake.Script{Text: []string{"one ", "two "}, Fault: fake.Stall, At: tokens}
		if tokens == 0 {
			s.First = time.Hour
		}
		return s
	}
}

// TestUpstreamLeaving: a client that leaves while its request waits for a replica, for the
// first token or for the next one frees the replica, which would else wait for an hour.
func TestUpstreamLeaving(t *testing.T) {
	f := fake.New(t, flavor.VLLM, hanging(0))
	n, base, key := startNode(t, func(cfg *config.Config) {
		withFake(cfg, fastModel, flavor.VLLM, f)
		instant := cfg.Models[slowModel]
		instant.Engine = config.EngineInstant
		m := cfg.Models[fastModel]
		m.Upstream.ConnectionsMax, m.Upstream.StallTimeout, m.Upstream.FirstTokenTimeout = 1, time.Hour, time.Hour
		cfg.Models[fastModel], cfg.Models[slowModel] = m, instant
	})
	awaitReplicas(t, n)
	m := n.catalog.upstreams[fastModel]
	leave := func(t *testing.T, stream bool, phase, gone func() bool) {
		t.Helper()
		from := len(f.Seen())
		abandonIn(t, base, key, fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":50,"messages":[{"role":"user","content":"x"}]}`, fastModel, stream),
			func() bool { return phase() && len(f.Seen()) >= from })
		t.Logf("free after %v", waitFor(t, "its place", gone))
	}
	asked := func(times int) func() bool { return func() bool { return len(f.Seen()) == times } }
	closed := func(times int) func() bool {
		return func() bool {
			seen := f.Seen()
			return len(seen) == times && !seen[times-1].Left.IsZero()
		}
	}
	count := 0
	for _, stream := range []bool{true, false} {
		for _, tokens := range []int{0, 1} {
			t.Run(fmt.Sprintf("after %d tokens, stream %t", tokens, stream), func(t *testing.T) {
				f.SetScript(hanging(tokens))
				count++
				leave(t, stream, asked(count), closed(count))
			})
		}
		t.Run(fmt.Sprintf("queue, stream %t", stream), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over := make(chan struct{})
			go func() {
				defer close(over)
				if r, err := post(ctx, base, key, fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":50,"messages":[{"role":"user","content":"y"}]}`, fastModel)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body) // ends with the client
					r.Body.Close()
				}
			}()
			count++
			waitFor(t, "the one in front", asked(count))
			leave(t, stream, func() bool { return m.Waiting() == 1 },
				func() bool { return m.Waiting() == 0 && n.tree.Inspect().Requests == 1 })
			cancel()
			<-over
			waitFor(t, "the one in front to go", closed(count))
		})
	}
	gateway{n: n}.idle(t)
	checkNothingLeft(t, n)
}
