package upstream

import (
	"slices"
	"testing"

	"corenode/engine/upstream/wire"
)

// replicaOf is what the model knows of a replica.
func replicaOf(m *Model, url string) Replica {
	all := m.Replicas()
	return all[slices.IndexFunc(all, func(r Replica) bool { return r.ID == url })]
}

// TestProbes: a replica whose health page fails is not asked until it passes again.
func TestProbes(t *testing.T) {
	sick, well := start(t, wire.VLLM, plainAnswer), start(t, wire.VLLM, plainAnswer)
	m := open(t, wire.VLLM, nil, sick, well)
	sick.SetDown(true)
	waitFor(t, "the replica to be out", func() bool { return !replicaOf(m, sick.URL).Up })
	l := newLoop(t, m)
	for range 8 {
		if got := l.ask("a", hello(false)); got.result.Err != nil {
			t.Fatalf("ended with %v", got.result.Err)
		}
	}
	if n := len(sick.Seen()); n != 0 {
		t.Errorf("a replica that is out was asked %d times", n)
	}
	sick.SetDown(false)
	waitFor(t, "the replica to be back", func() bool { return replicaOf(m, sick.URL).Up })
}

// TestVersionWhereNoneIsNamed: a client that names no version of the messages protocol gets its answers and
// counts from servers that demand one, as the probe does, and so does one that names it as SDKs do. What a client
// names goes along as it is.
func TestVersionWhereNoneIsNamed(t *testing.T) {
	for f, want := range map[wire.Flavor][]string{wire.Messages: {messagesVersion}, wire.Corenode: {messagesVersion}, wire.VLLM: nil} {
		s := start(t, f, plainAnswer)
		m := open(t, f, nil, s)
		newLoop(t, m).ask("a", hello(false))
		counts, answers := s.Counts(), s.Seen()
		if len(counts) != 2 || len(answers) != 1 { // the probe's, the prompt's
			t.Fatalf("%s: %d counts, %d answers", f, len(counts), len(answers))
		}
		for _, seen := range slices.Concat(counts, answers) {
			if got := seen.Header.Values("Anthropic-Version"); !slices.Equal(got, want) {
				t.Errorf("%s%s: version %q", f, seen.Path, got)
			}
		}
	}
	m := &Model{traits: wire.Messages.Traits()}
	for header, added := range map[field][]field{
		{"Anthropic-Version", "odd"}: nil,
		{"Protocol-Version", "2"}:    {{"Anthropic-Version", "2"}},
		{"Anthropic-Beta", "b"}:      {{"Anthropic-Version", messagesVersion}},
	} {
		want := append([]field{header}, added...)
		if got := m.forwarded(nil, [][2]string{{header.name, header.value}}); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWaitingCounts: requests go to the replica in whose own queue fewer wait.
func TestWaitingCounts(t *testing.T) {
	full, idle := start(t, wire.SGLang, plainAnswer), start(t, wire.SGLang, plainAnswer)
	m := open(t, wire.SGLang, nil, full, idle)
	full.SetWaiting(40)
	waitFor(t, "the queue to be known", func() bool { return replicaOf(m, full.URL).Waiting == 40 })
	l := newLoop(t, m)
	for range 8 {
		l.ask("a", hello(false))
	}
	if n := len(full.Seen()); n != 0 {
		t.Errorf("the full replica was asked %d times", n)
	}
}
