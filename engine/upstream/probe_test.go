package upstream

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/engine"
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

// TestKeyOfProbesIsNotTold: of the key that a server is asked with, and says again where a probe fails, nothing stands
// in the reason that operators see, in an error of a count, or in the log: not even where what it says is cut within the key.
func TestKeyOfProbesIsNotTold(t *testing.T) {
	var form atomic.Int64 // how the server fails
	forms := []string{"unwell", "uncounted", "untold", "garbled"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, key := forms[form.Load()], r.Header.Get("Authorization")
		switch counting := strings.HasSuffix(r.URL.Path, "count_tokens"); {
		case at == "unwell":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "%-88s%s", at, key)
		case !counting:
		case at == "uncounted":
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "%-188s%s", at, key)
		case at == "untold":
			fmt.Fprintf(w, "%-188s%s", at, key)
		default:
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s %s\r\n\r\n", at, key)
			c.Close()
		}
	}))
	defer server.Close()
	var log bytes.Buffer
	m, err := Open(Options{Info: engine.Info{ID: "far", ContextLength: 1000, OutputMax: 1000}, Flavor: wire.VLLM, Key: "sk-ours-and-nobody-elses",
		URLs: []string{server.URL}, ProbeEvery: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range forms {
		form.Store(int64(i))
		waitFor(t, "a reason", func() bool { return strings.Contains(replicaOf(m, server.URL).Reason, at) })
		texts := replicaOf(m, server.URL).Reason
		if at != "unwell" {
			_, err := m.countAt(m.ctx, m.replicas[server.URL], []byte("{}"), nil)
			texts += fmt.Sprint(err)
		}
		if strings.Contains(texts, "sk-") {
			t.Errorf("%s: %s", at, texts)
		}
	}
	m.Close()
	if strings.Contains(log.String(), "sk-") {
		t.Error(log.String())
	}
}

// TestKeyIsNotToldOfGarbledAnswers: likewise of the head of an answer that is none: the error quotes it.
func TestKeyIsNotToldOfGarbledAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\ngarbled %s\r\n\r\n", r.Header.Get("Authorization"))
		c.Close()
	}))
	defer server.Close()
	m := open(t, wire.VLLM, func(o *Options) {
		o.URLs, o.Key, o.Counter, o.ProbeEvery = []string{server.URL}, "sk-ours", counter{}, time.Hour
	})
	waitFor(t, "the server to be ready", m.anyReady)
	got := newLoop(t, m).ask("a", hello(false))
	refusal := cmp.Or(got.refused, got.result.Err)
	if refusal == nil || !strings.Contains(replicaOf(m, server.URL).Reason, "garbled") {
		t.Fatalf("%+v", got)
	}
	for _, text := range []string{refusal.Err.Error(), replicaOf(m, server.URL).Reason} {
		if strings.Contains(text, "sk-") {
			t.Error(text)
		}
	}
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
