//go:build unix

package extensions

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// The benchmarks of this file run the modules that ship, as Wasm, and the C
// example, the way the node calls them. Each reports processor time, which
// other programs on the machine change little, as the median of many batches.

// processorTime is what the process used so far, in nanoseconds.
func processorTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// medians runs batches of calls, each subject in turn so that all see the same
// noise, and reports the median processor time of one of a call's parts, and of a subject
// with an oracle the ratio to that one in the same run.
func medians(b *testing.B, batch int, subjects []subject) {
	times := make([][]float64, len(subjects))
	for i := range subjects {
		for range batch {
			subjects[i].call()
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i, s := range subjects {
			began := processorTime(b)
			for range batch {
				s.call()
			}
			times[i] = append(times[i], float64(processorTime(b)-began)/float64(batch*s.parts))
		}
	}
	median := make(map[string]float64)
	for i, s := range subjects {
		slices.Sort(times[i])
		median[s.name] = times[i][len(times[i])/2]
		b.ReportMetric(median[s.name], s.name+"-cpu-ns")
	}
	for _, s := range subjects {
		if s.oracle != "" {
			b.ReportMetric(median[s.name]/median[s.oracle], s.name+"/"+s.oracle)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// subject is one thing to measure: call does parts of it.
type subject struct {
	name  string
	parts int
	call  func()

	oracle string // the name of another one, or empty
}

// to gives s with an oracle.
func (s subject) to(oracle string) subject {
	s.oracle = oracle
	return s
}

// openShipped opens a host in which the shipped modules serve as Wasm.
func openShipped(b *testing.B) *Host {
	b.Helper()
	h, l := openWith(b, Options{AllowUnsigned: true, CacheDir: b.TempDir()}, shippedModules())
	for _, s := range []Slot{SlotChat, SlotResponses} {
		if g := h.slot(s).now.Load().active; g.pool == nil {
			b.Fatalf("slot %s is served natively: %s", s, l)
		}
	}
	return h
}

var shippedFacts = abi.Facts{ID: "0198c0ffee1234567890abcdef012345", Created: 1_760_000_000, Model: "core-1.1-mini", Stream: true}

// stream opens a stream and takes it to the middle of a text block.
func stream(b *testing.B, h *Host, s Slot) *Translation {
	b.Helper()
	tr := h.Translate(s, "account", "", abi.Facts{ID: shippedFacts.ID, Created: shippedFacts.Created})
	b.Cleanup(tr.Close)
	body := `{"model":"core-1.1-mini","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	if s == SlotResponses {
		body = `{"model":"core-1.1-mini","stream":true,"input":"hi"}`
	}
	if tr.generation.manifest.Runtime == "c" {
		body = `{"model":"core-1.1-mini","stream":true,"prompt":"hi"}`
	}
	if s == "generate-content" {
		body = `{"contents":[{"parts":[{"text":"hi"}]}]}`
		tr.SetRoute(&tr.generation.manifest, &abi.Route{Index: 1, Params: []abi.Pair{{Name: "model", Value: "core-1.1-mini"}},
			Query: []abi.Pair{{Name: "alt", Value: "sse"}}})
	}
	if s == "ollama" {
		tr.SetRoute(&tr.generation.manifest, &abi.Route{})
	}
	if _, err := tr.Request([]byte(body)); err != nil {
		b.Fatal(err)
	}
	tr.SetFacts(shippedFacts)
	if _, err := tr.Events(nil, []abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventBlockStart, Block: abi.BlockText}}); err != nil {
		b.Fatal(err)
	}
	return tr
}

// deltas is a group of n pieces of text.
func deltas(n int) []abi.Event {
	events := make([]abi.Event, n)
	for i := range events {
		events[i] = abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: " token"}
	}
	return events
}

// restate goes back to an earlier state of the same length, so that a benchmark
// does not count a stream's events up to what no stream has.
func (t *Translation) restate(state []byte) {
	if t.prefix > 0 {
		copy(t.in[t.prefix-behindState-len(state):], state)
	}
	copy(t.state, state)
}

// writes is a subject: event groups of n on a stream.
func writes(b *testing.B, name string, tr *Translation, n int) subject {
	events, dst := deltas(n), make([]byte, 0, 16<<10)
	if out, err := tr.Events(dst, events); err != nil || bytes.Count(out, []byte(" token")) != n {
		b.Fatalf("%q, %v", out, err)
	}
	begun := bytes.Clone(tr.state)
	return subject{name: name, parts: n, call: func() {
		tr.restate(begun)
		if out, err := tr.Events(dst[:0], events); err != nil || len(out) < 100*n || tr.generation.pool == nil {
			b.Fatalf("%q, %v", out, err)
		}
	}}
}

// openC opens a host in which the example in C serves chat.
func openC(b *testing.B) *Host {
	b.Helper()
	wasm, err := os.ReadFile("../wasm/examples/translator-c/module.wasm")
	if err != nil {
		b.Fatal(err)
	}
	manifest, err := os.ReadFile("../wasm/examples/translator-c/manifest.json")
	if err != nil {
		b.Fatal(err)
	}
	content := append(binary.AppendUvarint(nil, uint64(len(guest.ManifestSection))), guest.ManifestSection...)
	content = append(content, manifest...)
	wasm = append(binary.AppendUvarint(append(wasm, 0), uint64(len(content))), content...)
	h, _ := openTest(b, Options{})
	activate(b, h, wasm)
	return h
}

func benchShippedEvents(b *testing.B, n int) {
	h := openShipped(b)
	for _, name := range []string{"ollama", "generate-content"} {
		if _, err := h.Enable(name); err != nil {
			b.Fatal(err)
		}
	}
	c := stream(b, openC(b), SlotChat)
	medians(b, 2000/n, []subject{
		writes(b, "chat", stream(b, h, SlotChat), n),
		writes(b, "responses", stream(b, h, SlotResponses), n).to("chat"),
		writes(b, "ollama", stream(b, h, "ollama"), n).to("chat"),
		writes(b, "generate-content", stream(b, h, "generate-content"), n).to("chat"),
		writes(b, "c", c, n).to("host"),
		writes(b, "host", stream(b, openHost(b, c, n), SlotChat), n),
	})
}

// openHost opens a host with a module that computes nothing: it gives what the example in C
// gives for a group of n events. What it takes is the host's share.
func openHost(b *testing.B, c *Translation, n int) *Host {
	b.Helper()
	out, err := c.Events(nil, deltas(n))
	if err != nil {
		b.Fatal(err)
	}
	g := newGuest(SlotChat, "host")
	g.answers = chatAnswers("host")
	g.answers[abi.OpEvents] = abi.Written{State: c.state, Bytes: out}.Append(nil)
	h, _ := openTest(b, Options{})
	activate(b, h, g.bytes(b))
	return h
}

// BenchmarkShippedEvents1 and 8 are a streamed event, alone and in groups.
func BenchmarkShippedEvents1(b *testing.B) { benchShippedEvents(b, 1) }
func BenchmarkShippedEvents8(b *testing.B) { benchShippedEvents(b, 8) }

// BenchmarkShippedRequest100KB is a body of a long conversation.
func BenchmarkShippedRequest100KB(b *testing.B) {
	const turn = `{"role":"user","content":"Please read the file and tell me what the function \"Größe\" in it does,\nin one or two sentences."}`
	body := strings.Repeat(turn+",", 100<<10/len(turn)) + turn
	h := openShipped(b)
	request := func(name string, s Slot, h *Host, body string) subject {
		in := []byte(body)
		tr := h.Translate(s, "account", "", abi.Facts{ID: shippedFacts.ID, Created: shippedFacts.Created})
		b.Cleanup(tr.Close)
		return subject{name: name, parts: 1, call: func() {
			if out, err := tr.Request(in); err != nil || len(out) < len(in)/2 || tr.generation.pool == nil {
				b.Fatalf("%d bytes, %v", len(out), err)
			}
		}}
	}
	medians(b, 4, []subject{
		request("chat", SlotChat, h, `{"model":"core-1.1","messages":[`+body+`]}`),
		request("responses", SlotResponses, h, `{"model":"core-1.1","input":[`+body+`]}`),
		request("c", SlotChat, openC(b),
			`{"model":"core-1.1","prompt":"`+strings.Repeat(`a line of a long text, with \"quotes\"\n`, 100<<10/40)+`"}`),
	})
}
