package main

import (
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/bench/fake"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/config"
)

// fate is what a client may see of a fault of the server.
type fate struct {
	answered bool // the answer is complete
	status   int  // where nothing of the answer was there before the fault
	begun    bool // the fault comes behind content, so a stream has that already
	call     bool // the same, but what comes at once with a call may be held back with it
}

// fates say what becomes of each fault.
var fates = map[fake.Fault]fate{
	fake.DieBeforeHeaders: {status: 503}, fake.DieAfterHeaders: {status: 503}, fake.ErrorBody: {status: 503},
	fake.Full429: {status: 503}, fake.Full503: {status: 503}, fake.Broken500: {status: 503}, fake.Refuse401: {status: 503},
	fake.Refuse400:        {status: 400},
	fake.DieBetweenEvents: {begun: true, status: 503}, fake.DieInEvent: {begun: true, status: 503},
	fake.DieInCharacter: {begun: true, status: 503}, fake.EndEarly: {begun: true, status: 503}, fake.Stall: {begun: true, status: 503},
	fake.ErrorEvent: {begun: true, status: 503}, fake.NotJSON: {begun: true, status: 503},
	fake.InvalidCall: {call: true, status: 500}, fake.UnknownCall: {call: true, status: 500},
	fake.LieInput: {answered: true}, fake.LieOutput: {answered: true}, fake.LieCached: {answered: true}, fake.NoUsage: {answered: true},
	fake.NoDone: {answered: true}, fake.TwoDone: {answered: true},
}

var faultInPrompt = regexp.MustCompile(`fault \(([^)]*)\)`)

// faulty is the script of a server whose fault stands in the prompt, behind two deltas.
func faulty(_ int, body []byte) fake.Script {
	s := fake.Script{Text: []string{"one ", "two ", "three ", "four "}, At: 2}
	if m := faultInPrompt.FindSubmatch(body); m != nil {
		s.Fault = fake.Fault(m[1])
	}
	if s.Fault == fake.InvalidCall || s.Fault == fake.UnknownCall {
		s.Calls = []fake.Call{{}} // what the fault makes of it
	}
	return s
}

// withFake makes one model of a configuration one that fakes answer.
func withFake(cfg *config.Config, id string, f flavor.Flavor, servers ...*fake.Server) {
	m := cfg.Models[id]
	m.Engine, m.ContextLength = config.EngineUpstream, 262144
	m.Upstream.Flavor, m.Upstream.SharedCache = string(f), !f.Isolates()
	for _, s := range servers {
		m.Upstream.URLs = append(m.Upstream.URLs, s.URL)
	}
	cfg.Models[id] = m
}

// awaitReplicas waits until all replicas of all models are ready.
func awaitReplicas(t *testing.T, n *node) {
	t.Helper()
	waitFor(t, "the replicas to be ready", func() bool {
		for _, m := range n.catalog.upstreams {
			for _, r := range m.Replicas() {
				if !r.Ready {
					return false
				}
			}
		}
		return true
	})
}

// stalling is behind the names of the models whose servers are soon taken to stall.
const stalling = "-stalling"

// TestUpstreamFaults: every fault of a server, to clients of every protocol, streaming and
// not, of servers of both protocols. No broken stream looks complete; every admitted request
// is settled once, for what its client was told; nothing is left.
func TestUpstreamFaults(t *testing.T) {
	if len(fates) != len(fake.Faults()) {
		t.Fatalf("%d fates of %d faults", len(fates), len(fake.Faults()))
	}
	chat, msgs := fake.New(t, flavor.VLLM, faulty), fake.New(t, flavor.Messages, faulty)
	n, base, key := startNode(t, func(cfg *config.Config) {
		withFake(cfg, slowModel, flavor.VLLM, chat)
		withFake(cfg, fastModel, flavor.Messages, msgs)
		for _, id := range []string{slowModel, fastModel} { // apart: where the machine stands still, all others would stall too
			m := cfg.Models[id]
			m.Upstream.StallTimeout = 300 * time.Millisecond
			cfg.Models[id+stalling] = m
		}
	})
	awaitReplicas(t, n)
	h := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a broken stream ends its connection
	asked := make(chan errand)
	var mu sync.Mutex
	var receipts []receipt
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			for e := range asked {
				r := e.run(t, h, base, moments{})
				mu.Lock()
				receipts = append(receipts, r)
				mu.Unlock()
			}
		})
	}
	for _, f := range append(fake.Faults(), fake.None) {
		for _, model := range []string{slowModel, fastModel} {
			if f == fake.Stall {
				model += stalling
			}
			for _, path := range paths {
				for _, stream := range []bool{false, true} {
					asked <- errand{key: key, path: path, model: model, stream: stream, maxTokens: 50, tool: true,
						prompt: fmt.Sprintf("fault (%s) on %s %s %t", f, model, path, stream)}
				}
			}
		}
	}
	close(asked)
	askers.Wait()
	g := gateway{n: n}
	g.idle(t)
	rows := g.settlements(t)
	for _, r := range receipts {
		checkFault(t, r, rows[r.id])
	}
	checkNothingLeft(t, n)
}

// checkFault holds what one client saw to the fault, and to the rows of its request.
func checkFault(t *testing.T, r receipt, rows []account.Entry) {
	t.Helper()
	fault := fake.Fault(faultInPrompt.FindStringSubmatch(r.prompt)[1])
	want := fates[fault]
	if fault == fake.None {
		want.answered = true
	}
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s\nstatus %d, %d deltas, told %t, ended %t, usage %+v, failure %s", r.prompt, fmt.Sprintf(format, args...),
			r.status, r.deltas, r.told, r.ended, r.usage, r.failure)
		for _, e := range rows {
			t.Logf("row %d, reason %s, usage %+v, amount %d, source %+v", e.ID, e.Reason, e.Usage, e.Amount, e.Source)
		}
	}
	if r.status == http.StatusOK && len(rows) != 1 || len(rows) > 1 {
		bad("%d settlements", len(rows))
		return
	}
	if want.answered {
		u := counted{}
		if len(rows) == 1 {
			u = counted{int(rows[0].Usage.Input()), int(rows[0].Usage.CacheRead), int(rows[0].Usage.Output)}
		}
		if r.status != http.StatusOK || !r.told || r.failure != "" || r.stream && !r.ended || u != r.usage || r.usage.output != 4 {
			bad("want a whole answer, charged as told; row %+v", u)
		}
		checkCharge(t, strings.TrimSuffix(r.model, stalling), rows)
		return
	}
	if r.told || r.ended || r.failure == "" {
		bad("want an error")
	}
	switch {
	case r.stream && r.status == http.StatusOK: // the error is an event; the paid rest is what a failed engine's is
		if want.begun != (r.deltas > 0) && !want.call {
			bad("%d deltas", r.deltas)
		}
		if rows[0].Reason != account.Failed || int(rows[0].Usage.Output) > r.deltas || r.deltas == 0 && rows[0].Amount != 0 {
			bad("want a row of a failure")
		}
		checkCharge(t, strings.TrimSuffix(r.model, stalling), rows)
	case r.status != want.status || (want.begun || want.call) && r.stream:
		bad("want status %d", want.status)
	case len(rows) == 1 && rows[0].Amount != 0:
		bad("an error is free")
	case r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") == "":
		bad("want Retry-After")
	}
}

// checkCharge: a row charges what its usage costs.
func checkCharge(t *testing.T, model string, rows []account.Entry) {
	t.Helper()
	for _, e := range rows {
		want := priceOf(model, e.Usage.InputUncached+e.Usage.CacheWrite, e.Usage.CacheRead, e.Usage.Output)
		if want.Cmp(big.NewInt(-int64(e.Amount))) != 0 {
			t.Errorf("row %+v, want a charge of %v", e, want)
		}
	}
}

// checkNothingLeft: no request, no permit, no reservation, no hold is left, here or at a replica.
func checkNothingLeft(t *testing.T, n *node) {
	t.Helper()
	s := n.tree.Inspect()
	if s.Requests != 0 {
		t.Errorf("the tree has %d requests", s.Requests)
	}
	for id, a := range s.Accounts {
		if a.State.RequestsRemaining != a.State.RequestsLimit {
			t.Errorf("account %s: %+v", id, a)
		}
	}
	if holds, err := n.store.OpenHolds(); err != nil || len(holds) != 0 {
		t.Errorf("%d holds are open, %v", len(holds), err)
	}
	for id, m := range n.catalog.upstreams {
		for _, r := range m.Replicas() {
			if r.InFlight != 0 {
				t.Errorf("model %s: %d requests on %s", id, r.InFlight, r.ID)
			}
		}
		if m.Waiting() != 0 {
			t.Errorf("model %s: %d requests wait", id, m.Waiting())
		}
	}
}
