package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
	"corenode/wasm/tariff"
)

// clerk is a small translator without a defect, but for those that a test plants.
type clerk struct {
	groups    bool // numbers the events of each group from 1
	counts    *int // counts its calls, and shows it
	fragile   bool // panics on a body that is no UTF-8
	raw       bool // writes messages without escaping
	curious   bool // writes events of kinds it does not know
	torn      bool // ends a group within an event
	mute      bool // refuses without a message
	authority bool // refuses with a kind that is not the client's fault
}

func (c *clerk) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	kind := abi.InvalidRequest
	if c.authority {
		kind = abi.InsufficientBalance
	}
	if c.fragile && !utf8.Valid(in.Body) {
		panic("no UTF-8")
	}
	var asked struct {
		Model    string           `json:"model"`
		Messages []map[string]any `json:"messages"`
	}
	if err := json.Unmarshal(in.Body, &asked); err != nil || !utf8.Valid(in.Body) {
		msg := "the body is no chat request"
		if c.mute {
			msg = ""
		}
		return abi.Translated{}, &abi.Error{Kind: kind, Param: "messages", Msg: msg}
	}
	body, _ := json.Marshal(asked)
	return abi.Translated{Body: body, Kept: []byte(asked.Model)}, nil
}

func (c *clerk) Events(dst, state []byte, in abi.EventsInput) (written, next []byte) {
	n, _ := strconv.Atoi(string(in.State))
	if c.groups {
		n = 0
	}
	all := in.Events
	for f, more := all.Next(); more; f, more = all.Next() {
		if f.Kind > abi.EventError && !c.curious {
			continue
		}
		n++
		text := []byte(nil)
		if f.Kind == abi.EventDelta {
			text = f.Payload
		}
		dst = fmt.Appendf(dst, "data: {\"n\":%d,\"kind\":%d,\"text\":\"%s\"}\n\n", n, f.Kind, text)
	}
	if c.torn {
		dst = bytes.TrimSuffix(dst, []byte("\n"))
	}
	if c.counts != nil {
		*c.counts++
		dst = fmt.Appendf(dst, ": %d\n\n", *c.counts)
	}
	return dst, strconv.AppendInt(state, int64(n), 10)
}

func (c *clerk) Response(dst []byte, in abi.ResponseInput) []byte {
	dst = append(dst, `{"text":"`...)
	all := in.Events
	for f, more := all.Next(); more; f, more = all.Next() {
		if f.Kind == abi.EventDelta {
			dst = append(dst, f.Payload...)
		}
	}
	if in.Facts.ID == "torn" {
		return append(dst, `"}}`...)
	}
	return append(dst, `"}`...)
}

func (c *clerk) Error(dst []byte, in abi.ErrorInput) []byte {
	if in.Facts.Stream {
		dst = append(dst, "data: "...)
	}
	dst = append(dst, `{"error":"`...)
	if c.raw {
		dst = append(dst, in.Msg...)
	} else {
		dst = abi.AppendEscaped(dst, in.Msg)
	}
	dst = append(dst, `"}`...)
	if in.Facts.Stream {
		dst = append(dst, "\n\n"...)
	}
	return dst
}

// toll is a billing module with planted defects in the shipped tariff.
type toll struct{ defect string }

func (m toll) Quote(in abi.QuoteInput) (abi.Quote, error) {
	upper, minimum, err := tariff.Quote(in.Prices, in.Input, in.OutputMax)
	if m.defect == "quote" {
		upper, minimum = minimum, upper
	}
	if m.defect == "unit" {
		upper += 1e18
	}
	return abi.Quote{Upper: upper, Minimum: minimum}, err
}

func (m toll) Charge(in abi.ChargeInput) (abi.Charge, error) {
	out, err := tariff.Rate(in.Prices, in.Usage)
	if m.defect == "wraps" && err != nil {
		out, err = abi.Charge{Total: -5, Lines: []abi.Line{{Amount: -5}, {}, {}}}, nil
	}
	switch m.defect {
	case "triple":
		out.Lines[0].Amount *= 3
		out.Total += out.Lines[0].Amount / 3 * 2
	case "negative":
		out.Lines[0].Amount -= 2 * out.Total
		out.Total -= 2 * out.Total
	case "sum":
		out.Total++
	case "sum of one":
		if in.Account == "acme" {
			out.Total++
		}
	case "free":
		return abi.Charge{Tier: 1}, err
	case "declines":
		return out, errors.New("no")
	}
	return out, err
}

// gate is an admission policy.
type gate struct{}

func (gate) Decide(in abi.AdmissionInput) abi.Decision {
	if in.Counters.NodeRequests >= in.Counters.NodeRequestsMax {
		return abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: "full"}
	}
	return abi.Decision{}
}

// guard is a rewrite module that writes its body again.
type guard struct{ defect string }

func (m guard) Rewrite(in abi.RewriteInput) ([]byte, *abi.Error) {
	if m.defect == "deep" && bytes.Contains(in.Body, bytes.Repeat([]byte("["), 5000)) {
		panic("the stack is full")
	}
	var asked map[string]any
	if m.defect != "copies" && (json.Unmarshal(in.Body, &asked) != nil || asked == nil || !utf8.Valid(in.Body)) {
		return nil, nil // the node refuses it
	}
	return in.Body, nil
}

// mask is a filter that shows all.
type mask struct{ defect string }

func (m mask) Filter(in abi.FilterInput) (abi.Filtered, error) {
	switch {
	case m.defect == "empty" && in.Text == "", m.defect == "control" && strings.Contains(in.Text, "\x00"),
		m.defect == "half" && in.Text != "" && !utf8.RuneStart(in.Text[0]):
		panic("out of bounds")
	case m.defect == "last" && in.Last, m.defect == "thinking" && in.Block == abi.BlockThinking:
	case m.defect == "last", m.defect == "thinking":
		return abi.Filtered{Text: bytes.ReplaceAll([]byte(in.Text), []byte("a"), []byte("*"))}, nil
	case m.defect == "cuts" && len(in.Text) > 4093:
		return abi.Filtered{Text: []byte(in.Text[:4093])}, nil
	}
	return abi.Filtered{Text: []byte(in.Text)}, nil
}

// handmade runs a native handler as an instance: a tick is a byte of input.
type handmade struct {
	h      sdk.Handler
	leaks  bool
	slow   int64 // more ticks a byte
	memory int64
}

func (g *handmade) Call(op abi.Op, in []byte) (frame []byte, ticks int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			frame, err = nil, fmt.Errorf("trap: %v", r)
		}
	}()
	if g.leaks {
		g.memory++
	}
	return g.h(op, in, nil), int64(len(in)) * (1 + g.slow), nil
}

func (g *handmade) MemoryBytes() int64 { return g.memory }
func (g *handmade) Close()             {}

// subject makes one of a handler. fresh is called for each instance.
func subject(kind, vectors string, fresh func() *handmade) Subject {
	s := Subject{
		Module: probe.Module{Kind: kind}, Name: "fake@1", Vectors: []byte(vectors), Digest: "sha256:00", Size: 7,
		Open:   func([]byte) (Guest, error) { return fresh(), nil },
		Budget: func(_ abi.Op, n int) int64 { return 1000 + 4*int64(n) },
	}
	if kind == "translator" {
		s.Protocol = "chat"
	}
	return s
}

func translator(c *clerk) Subject {
	return subject("translator", clerkVectors, func() *handmade {
		own := *c
		if c.counts != nil {
			own.counts = new(int)
		}
		return &handmade{h: sdk.TranslatorHandler(&own), memory: 1 << 16}
	})
}

func billing(m toll) Subject {
	return subject("billing", tollVectors, func() *handmade { return &handmade{h: sdk.BillingHandler(m), memory: 1 << 16} })
}

func rewriter(m guard) Subject {
	return subject("rewrite", `[{"name": "a", "op": "rewrite", "rewrite": {"body": {}}, "want": {"body": {}}}]`,
		func() *handmade { return &handmade{h: sdk.RewriteHandler(m)} })
}

func filter(m mask) Subject {
	return subject("filter", `[{"name": "a", "op": "filter", "filter": {"text": "a"}, "want": {"text": "a"}}]`,
		func() *handmade { return &handmade{h: sdk.FilterHandler(m)} })
}

const clerkVectors = `[
{"name": "a", "op": "request", "body": {"model": "m", "messages": [{"role": "user"}]}, "want": {"body": {"model":"m","messages":[{"role":"user"}]}, "kept": "m"}},
{"name": "b", "op": "stream", "kept": "m", "events": [{"start": {}}, {"text": ["1", "2"]}],
 "want": {"stream": ["data: {\"n\":1,\"kind\":0,\"text\":\"\"}", "", "data: {\"n\":2,\"kind\":1,\"text\":\"\"}", "", "data: {\"n\":3,\"kind\":2,\"text\":\"1\"}", "", "data: {\"n\":4,\"kind\":2,\"text\":\"2\"}", "", "data: {\"n\":5,\"kind\":3,\"text\":\"\"}", ""]}}]`

const tollVectors = `[{"name": "q", "op": "quote", "quote": {"input": 10, "output_max": 10}, "want": {"quote": {"upper": 26400, "minimum": 4800}}}]`

// findings is all that a report says must be fixed in a stage.
func findings(r *Report, stage string) string {
	var all []string
	for _, s := range r.Stages {
		if s.Name == stage && !s.Passed {
			for _, f := range s.Findings {
				all = append(all, f.What)
			}
		}
	}
	return strings.Join(all, "\n")
}

func written(r *Report) string {
	var b bytes.Buffer
	r.Write(&b)
	return b.String()
}

func quick() Options { return Options{Calls: 400, fresh: 32} }

// failed lists the stages that did not pass.
func failed(r *Report) (names []string) {
	for _, s := range r.Stages {
		if !s.Passed {
			names = append(names, s.Name)
		}
	}
	return names
}

func mustParse(t *testing.T, text string) []vector.Vector {
	t.Helper()
	all, err := vector.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
