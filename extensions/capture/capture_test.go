package capture

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"corenode/wasm/abi"
)

func raw(n int) func([]byte) []byte {
	return func(dst []byte) []byte { return append(dst, make([]byte, n)...) }
}

// TestBounds: neither bytes nor requests go beyond their bounds, a request is kept whole or
// not at all, and what was kept before stays.
func TestBounds(t *testing.T) {
	start := time.Unix(1000, 0)
	c := New("", start, start.Add(time.Minute))
	small := c.Begin("a", "small", start)
	small.Add(abi.OpQuote, raw(10))
	small.End()
	large := c.Begin("a", "large", start)
	large.Add(abi.OpRequest, raw(BytesMax-10))
	large.Add(abi.OpEvents, raw(1)) // there is no room for its end
	large.End()
	if s := c.Status(); s.Requests != 1 || s.Bytes != 10 || s.Missed != 1 {
		t.Errorf("%+v", s)
	}
	for n := range RequestsMax + 50 {
		r := c.Begin("a", fmt.Sprint(n), start)
		r.Add(abi.OpQuote, raw(1))
		r.End()
		r.End()
	}
	if s := c.Status(); s.Requests != RequestsMax || s.Bytes != RequestsMax-1+10 || s.Missed != 52 {
		t.Errorf("%+v", s)
	}
	if c.Begin("a", "late", start.Add(time.Minute)) != nil || New("b", start, start.Add(time.Hour)).Begin("a", "x", start) != nil {
		t.Error("a request was taken that is late, or of another account")
	}
	running := c.Begin("a", "running", start)
	c.Forget()
	c.Forget()
	running.Add(abi.OpQuote, raw(5))
	running.End()
	if s := c.Status(); s.Requests != 0 || s.Bytes != 0 {
		t.Errorf("after it was forgotten: %+v", s)
	}
	var none *Request // of a slot that is not captured
	none.Add(abi.OpQuote, raw(1))
	none.Events(abi.Facts{}, nil)
	none.End()
}

// TestTexts: a difference shows the old and the new text where they part, for whole
// bodies and for streams however they were cut.
func TestTexts(t *testing.T) {
	start := time.Unix(1000, 0)
	c := New("", start, start.Add(time.Minute))
	r := c.Begin("mine", "req_1", start)
	r.Add(abi.OpRequest, abi.RequestInput{Body: []byte("{}")}.Append)
	for range 2 {
		r.Events(abi.Facts{Stream: true}, []abi.Event{{Kind: abi.EventDelta, Text: "x"}})
	}
	r.End()
	side := func(native, first, rest string) Side {
		n := 0
		return Side{Call: func(_ string, op abi.Op, _ []byte) ([]byte, int64, error) {
			payload := abi.Translated{Body: []byte(native)}.Append(nil)
			if op == abi.OpEvents {
				n++
				payload = abi.Written{Bytes: []byte([]string{first, rest}[n-1])}.Append(nil)
			}
			out := append(abi.BeginOutput(nil, abi.StatusOK, 0), payload...)
			abi.EndOutput(out, 0)
			return out, 7, nil
		}}
	}
	long := strings.Repeat("data: the same\n\n", 9)
	for _, test := range []struct {
		older, newer Side
		says         string
	}{
		{side("{}", "data: a\n\n", "data: b\n\n"), side("{}", "data: a\n\ndata: b\n\n", ""), ""},
		{side(`{"a":1}`, "", ""), side(`{"a":2}`, "", ""), `body was "{\"a\":1}", is "{\"a\":2}"`},
		{side("{}", long, "data: old\n\n"), side("{}", long, "data: new\n\n"), `old  "the same\n\ndata: the same`},
	} {
		cmp := NewCompare(test.older, test.newer, func(native []byte) (int, bool) { return len(native), true })
		cmp.Add(r)
		got := cmp.Report(0)
		if got.OldTokens == 0 || got.Operations[0].OldTicks != 7 || got.Operations[1].NewTicks != 14 {
			t.Errorf("%+v", got)
		}
		switch {
		case test.says == "" && got.Differ == 0:
		case test.says == "" || len(got.First) != 1 || !strings.Contains(got.First[0].Text, test.says):
			t.Errorf("want %q, got %+v", test.says, got.First)
		}
	}
	failing := Side{Call: func(string, abi.Op, []byte) ([]byte, int64, error) { return nil, 0, errors.New("trap: out of bounds") }}
	cmp := NewCompare(side("{}", "a", "b"), failing, nil)
	cmp.Add(r)
	if got := cmp.Report(3); got.Failed != 1 || got.Left != 3 || got.First[0].Text != "the old build answers\nthe new build faults: request: trap: out of bounds" {
		t.Errorf("%+v", got)
	}
}

// TestRefusalsGoOnWithError: what a build's error makes of its own refusal is compared; no other call follows one.
func TestRefusalsGoOnWithError(t *testing.T) {
	start := time.Unix(1000, 0)
	c := New("", start, start.Add(time.Minute))
	refused := c.Begin("a", "refused", start)
	refused.Add(abi.OpRequest, abi.RequestInput{Body: []byte("{}")}.Append)
	refused.Add(abi.OpError, abi.ErrorInput{Status: 400, Kind: abi.InvalidRequest, Param: "old", Msg: "captured"}.Append)
	taken := c.Begin("a", "taken", start)
	taken.Add(abi.OpRequest, abi.RequestInput{Body: []byte("{}")}.Append)
	taken.Add(abi.OpResponse, abi.ResponseInput{}.Append)
	limited := c.Begin("a", "limited", start)
	limited.Add(abi.OpRequest, abi.RequestInput{Body: []byte("{}")}.Append)
	limited.Add(abi.OpError, abi.ErrorInput{Status: 429, Kind: abi.RateLimited, Msg: "captured"}.Append)
	side := func(form string) Side {
		return Side{Call: func(_ string, op abi.Op, in []byte) ([]byte, int64, error) {
			status, payload := abi.StatusError, abi.Refusal{Param: "p", Msg: "m"}.Append(nil)
			if op == abi.OpError {
				e, err := abi.ParseErrorInput(in)
				status, payload = abi.StatusOK, fmt.Appendf(nil, "%s %s %s", form, e.Param, e.Msg)
				return framed(status, payload), 1, err
			}
			if op != abi.OpRequest {
				t.Errorf("%v is called after a refusal", op)
			}
			return framed(status, payload), 1, nil
		}}
	}
	cmp := NewCompare(side("one"), side("two"), nil)
	cmp.Add(refused)
	if got := cmp.Report(0); len(got.First) != 1 || !strings.Contains(got.First[0].Text, `body was "one p m", is "two p m"`) {
		t.Errorf("%+v", got)
	}
	cmp.Add(taken)
	cmp.Add(limited) // where the module that served took the request, and the error is another's
	if got := cmp.Report(0); got.Requests != 3 || got.Differ != 1 || got.Failed != 0 {
		t.Errorf("%+v", got)
	}
}

func framed(status abi.Status, payload []byte) []byte {
	out := append(abi.BeginOutput(nil, status, abi.InvalidRequest), payload...)
	abi.EndOutput(out, 0)
	return out
}

// TestChargesOfNothingCount: a build that gives some for nothing says so in no line, and the sums have it.
func TestChargesOfNothingCount(t *testing.T) {
	start := time.Unix(1000, 0)
	c := New("", start, start.Add(time.Minute))
	side := func(charge abi.Charge) Side {
		return Side{Call: func(string, abi.Op, []byte) ([]byte, int64, error) {
			out := append(abi.BeginOutput(nil, abi.StatusOK, 0), charge.Append(nil)...)
			abi.EndOutput(out, 0)
			return out, 1, nil
		}}
	}
	paid := abi.Charge{Total: 7, Lines: []abi.Line{{Unit: "input", Tokens: 7, Price: 1, Amount: 7}}}
	cmp := NewCompare(side(paid), side(abi.Charge{Tier: 1}), nil)
	r := c.Begin("a", "r", start)
	r.Add(abi.OpCharge, raw(1))
	cmp.Add(r)
	if got := cmp.Report(0); got.Charges != 1 || got.OldNanoUSD != 7 || got.NewNanoUSD != 0 {
		t.Errorf("%+v", got)
	}
}

// TestSumsStop: sums of what builds say, which may break all rules of charges, stop at the ends of an int64.
func TestSumsStop(t *testing.T) {
	start := time.Unix(1000, 0)
	c := New("", start, start.Add(time.Minute))
	side := func(total abi.Nano, tokens int64) Side {
		return Side{Call: func(string, abi.Op, []byte) ([]byte, int64, error) {
			charge := abi.Charge{Total: total, Lines: []abi.Line{{Unit: "input", Tokens: tokens}, {Unit: "output", Tokens: tokens}}}
			out := append(abi.BeginOutput(nil, abi.StatusOK, 0), charge.Append(nil)...)
			abi.EndOutput(out, 0)
			return out, 1, nil
		}}
	}
	const half, least = math.MaxInt64/2 + 1, math.MinInt64
	for _, test := range []struct {
		total, totals  abi.Nano
		tokens, summed int64
	}{{half, math.MaxInt64, half, math.MaxInt64}, {-5, -10, -7, -28}, {least, least, least, least}, {5, 10, 1, 4}} {
		cmp := NewCompare(side(test.total, test.tokens), side(test.total, test.tokens), nil)
		for range 2 {
			r := c.Begin("a", "r", start)
			r.Add(abi.OpCharge, raw(1))
			cmp.Add(r)
		}
		got := cmp.Report(0)
		if got.Charges != 2 || got.OldNanoUSD != test.totals || got.NewNanoUSD != test.totals || got.OldTokens != test.summed ||
			got.NewTokens != test.summed {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// TestEarlyIsCompared: from which event group on a stream that breaks is paid is a difference, also between texts that are
// the same. What is marked before there is content is none, nor is how the text behind that is cut.
func TestEarlyIsCompared(t *testing.T) {
	start := time.Unix(1000, 0)
	c := New("", start, start.Add(time.Minute))
	r := c.Begin("mine", "req_1", start)
	for _, group := range [][]abi.Event{{{Kind: abi.EventStart}}, {{Kind: abi.EventDelta, Text: "x"}}, {{Kind: abi.EventDelta, Text: "y"}}} {
		r.Events(abi.Facts{Stream: true}, group)
	}
	r.End()
	side := func(marked int, groups ...string) Side {
		n := 0
		return Side{Call: func(string, abi.Op, []byte) ([]byte, int64, error) {
			out := append(abi.BeginOutput(nil, abi.StatusOK, 0), abi.Written{Bytes: []byte(groups[n])}.Append(nil)...)
			abi.EndOutput(out, 0)
			if n++; n <= marked {
				abi.MarkEarly(out, 0)
			}
			return out, 1, nil
		}}
	}
	for _, test := range []struct {
		older, newer Side
		says         string
	}{
		{side(1, "a", "b", "c"), side(1, "a", "b", "c"), ""},
		{side(0, "a", "b", "c"), side(1, "a", "b", "c"), ""},
		{side(0, "a", "bc", ""), side(0, "a", "b", "c"), ""},
		{side(0, "a", "b", "c"), side(2, "a", "b", "c"), "a stream that breaks was free for 1 event groups, is for 2"},
		{side(2, "a", "b", "c"), side(3, "a", "b", "d"), "stream was \"abc\", is \"abd\"\na stream that breaks was free for 2 event groups, is for 3"},
		{side(0, "a", "b", "c"), side(0, "ab", "", "c"), "a stream that breaks was free for 1 event groups, is for 2"},
	} {
		cmp := NewCompare(test.older, test.newer, nil)
		cmp.Add(r)
		got := cmp.Report(0)
		text := ""
		if len(got.First) > 0 {
			text = got.First[0].Text
		}
		if text != test.says || (got.Operations[0].Differ == 1) != (test.says != "") {
			t.Errorf("want %q, got %+v", test.says, got)
		}
	}
}
