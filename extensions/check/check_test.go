package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// TestGoodModules: nothing is found in modules without a defect, and a report
// repeats.
func TestGoodModules(t *testing.T) {
	for name, s := range map[string]Subject{
		"translator": translator(&clerk{}),
		"billing":    billing(toll{}),
		"rewrite":    rewriter(guard{}),
		"filter":     filter(mask{}),
		"admission": subject("admission",
			`[{"name": "a", "op": "decide", "admission": {}, "want": {"decision": {"verdict": "deny", "kind": "rate_limited", "msg": "full"}}}]`,
			func() *handmade { return &handmade{h: sdk.AdmissionHandler(gate{})} }),
	} {
		first := Run(s, quick())
		if !first.Passed || !strings.Contains(written(first), "Nothing must be fixed") {
			t.Errorf("%s:\n%s", name, written(first))
		}
		if len(first.Ticks) == 0 || first.Memory.Calls != 400 {
			t.Errorf("%s: %d counts of ticks, memory over %d calls", name, len(first.Ticks), first.Memory.Calls)
		}
		a, _ := json.Marshal(first)
		b, _ := json.Marshal(Run(s, quick()))
		if !bytes.Equal(a, b) {
			t.Errorf("%s: two reports differ:\n%s\n%s", name, a, b)
		}
	}
}

// TestPlantedDefects: each is found, in its stage and with the words that
// lead to it.
func TestPlantedDefects(t *testing.T) {
	leaking := translator(&clerk{})
	leaking.Open = func([]byte) (Guest, error) {
		return &handmade{h: sdk.TranslatorHandler(&clerk{}), leaks: true}, nil
	}
	greedy := translator(&clerk{})
	greedy.Budget = func(abi.Op, int) int64 { return 10 }
	poisoned := translator(&clerk{})
	poisoned.Open = func([]byte) (Guest, error) {
		bad := false // once it has seen a body that is no UTF-8
		return &handmade{h: func(op abi.Op, in, dst []byte) []byte {
			bad = bad || bytes.Contains(in, []byte("\xff\xfe\xc3"))
			if bad {
				return abi.BeginOutput(dst, abi.StatusDecline, 0)
			}
			return sdk.TranslatorHandler(&clerk{})(op, in, dst)
		}}, nil
	}
	closed := translator(&clerk{})
	closed.Open = func([]byte) (Guest, error) { return nil, errors.New("init: no such currency") }
	bare := translator(&clerk{})
	bare.Vectors = nil
	wrong := translator(&clerk{})
	wrong.Vectors = bytes.Replace(wrong.Vectors, []byte(`"kept": "m"}}`), []byte(`"kept": "n"}}`), 1)
	garbled := translator(&clerk{})
	garbled.Vectors = []byte(`[{"op": "fly"}]`)

	cases := []struct {
		defect  string
		subject Subject
		stage   string
		says    string
	}{
		{"groups show", translator(&clerk{groups: true}), "vectors", "every event alone: stream differs"},
		{"a group ends within an event", translator(&clerk{torn: true}), "vectors", "it does not end with the empty line that ends a server-sent event"},
		{"it counts calls", translator(&clerk{counts: new(int)}), "determinism", "gives other bytes"},
		{"it traps on a bad body", translator(&clerk{fragile: true}), "hostile input", "a body of no UTF-8: trap: no UTF-8"},
		{"messages are not escaped", translator(&clerk{raw: true}), "hostile input", "odd message"},
		{"unknown events are written", translator(&clerk{curious: true}), "hostile input", "unknown kind 200"},
		{"no reason is given", translator(&clerk{mute: true}), "hostile input", "without saying why"},
		{"it refuses for lack of money", translator(&clerk{authority: true}), "hostile input", "must be invalid_request"},
		{"a bad body spoils what follows", poisoned, "hostile input", "after all that"},
		{"memory grows", leaking, "memory", "still grows"},
		{"no instance opens", closed, "load", "no such currency"},
		{"no vectors", bare, "vectors", "no golden vectors"},
		{"a wrong vector", wrong, "vectors", "kept is"},
		{"a broken vector", garbled, "vectors", "no name"},
		{"the quote is upside down", billing(toll{"quote"}), "money", "minimum"},
		{"a quote of millions", billing(toll{"unit"}), "money", "<= 1000000000000000"},
		{"a triple charge", billing(toll{"triple"}), "money", "above the quote"},
		{"a negative charge", billing(toll{"negative"}), "money", "negative"},
		{"a wrong sum", billing(toll{"sum"}), "money", "the lines add up to"},
		{"a charge of nothing", billing(toll{"free"}), "money", "nothing is charged for tokens that were used"},
		{"it declines everything", billing(toll{"declines"}), "money", "every request is declined"},
		{"numbers that do not fit", billing(toll{"wraps"}), "hostile input", "negative"},
	}
	for _, c := range cases {
		o := quick()
		o.only = []string{"vectors", c.stage}
		r := Run(c.subject, o)
		if r.Passed || !strings.Contains(findings(r, c.stage), c.says) {
			t.Errorf("%s: want %q in stage %s:\n%s", c.defect, c.says, c.stage, written(r))
		}
	}
	if r := Run(greedy, quick()); !strings.Contains(written(r), "a larger one will fail") {
		t.Errorf("a call that takes all its ticks is not mentioned:\n%s", written(r))
	}
}

// TestPlantedDefectsOfPolicies: of modules that change requests and answers.
func TestPlantedDefectsOfPolicies(t *testing.T) {
	for _, c := range []struct {
		defect  string
		subject Subject
		says    string
	}{
		{"a rewrite traps on a deep body", rewriter(guard{"deep"}), "a body of deep arrays: trap: the stack is full"},
		{"a rewrite gives what is no JSON", rewriter(guard{"copies"}), "a body of a number: the body is no JSON object"},
		{"a filter traps on no text", filter(mask{"empty"}), "a piece of no text, last false: trap"},
		{"a filter traps on a zero byte", filter(mask{"control"}), "a piece of control characters, last false: trap"},
		{"a filter traps on half a character", filter(mask{"half"}), "a piece of the other half, last false: trap"},
		{"a filter cuts a character", filter(mask{"cuts"}), "wide runes, last false: the text is not UTF-8"},
	} {
		o := quick()
		o.only = []string{"vectors", "hostile input"}
		r := Run(c.subject, o)
		if r.Passed || !strings.Contains(findings(r, "hostile input"), c.says) {
			t.Errorf("%s: want %q:\n%s", c.defect, c.says, written(r))
		}
	}
}

// TestVectorsOfFilters: a text that ends its block is seen as one that does not, in the block that the vector names.
func TestVectorsOfFilters(t *testing.T) {
	const asked = `[{"name": "v", "op": "filter", "filter": {"block": "BLOCK", "text": "a"}, "want": {"text": "*"}}]`
	for _, c := range []struct{ defect, block, says string }{
		{"last", "text", `with last: text is "a", want "*"`},
		{"thinking", "thinking", `text is "a", want "*"`},
		{"thinking", "Thinking", `filter.block is "Thinking", want text or thinking`},
	} {
		s := filter(mask{c.defect})
		s.Vectors = []byte(strings.Replace(asked, "BLOCK", c.block, 1))
		o := quick()
		o.only = []string{"vectors"}
		if r := Run(s, o); !strings.Contains(findings(r, "vectors"), c.says) {
			t.Errorf("%+v:\n%s", c, written(r))
		}
	}
}

// TestModuleWithoutStreams: a module whose framing is json is asked for no stream, in calls or errors.
func TestModuleWithoutStreams(t *testing.T) {
	s := translator(&clerk{})
	s.Protocol, s.Framing, s.Routes = "verse", "json", []probe.Route{{Op: "generate"}}
	s.Vectors = []byte(`[{"name": "a", "op": "request", "route": {"index": 0}, "body": {"model": "m", "messages": []},
		"want": {"body": {"model":"m","messages":[]}}}]`)
	s.Open = func([]byte) (Guest, error) {
		handler := sdk.TranslatorHandler(&clerk{})
		return &handmade{memory: 1 << 16, h: func(op abi.Op, in, dst []byte) []byte {
			if op == abi.OpEvents {
				return abi.BeginOutput(dst, abi.StatusDecline, 0)
			}
			if failed, err := abi.ParseErrorInput(in); op == abi.OpError && err == nil {
				failed.Facts.Stream = false
				in = failed.Append(nil)
			}
			return handler(op, in, dst)
		}}, nil
	}
	if r := Run(s, quick()); !r.Passed {
		t.Error(written(r))
	}
	if p := probe.Run(probe.Subject{Module: s.Module, Call: opened(t, s), Fresh: opened(t, s)}); p != nil {
		t.Error(p)
	}
}

// opened calls an instance of its own.
func opened(t *testing.T, s Subject) vector.Call {
	g, err := s.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(op abi.Op, in []byte) ([]byte, error) {
		frame, _, err := g.Call(op, in)
		return frame, err
	}
}

// TestVectorsKeepRules: a want that breaks what every call is held to while a module serves is no want.
func TestVectorsKeepRules(t *testing.T) {
	frozen := func(kind string, payload []byte) Subject {
		return subject(kind, "", func() *handmade {
			return &handmade{h: func(_ abi.Op, _, dst []byte) []byte {
				dst = append(abi.BeginOutput(dst, abi.StatusOK, 0), payload...)
				abi.EndOutput(dst, 0)
				return dst
			}}
		})
	}
	for _, c := range []struct {
		subject      Subject
		vector, says string
	}{
		{billing(toll{"sum of one"}), `"op": "charge", "charge": {"account": "acme", "usage": {"output": 1}}, "want": {"charge":
			{"total": 2401, "tier": 1, "lines": [{"unit": "input", "tokens": 0, "price": 240, "amount": 0},
			{"unit": "cached_input", "tokens": 0, "price": 24, "amount": 0},
			{"unit": "output", "tokens": 1, "price": 2400, "amount": 2400}]}}`, "the total is 2401, the lines add up to 2400"},
		{billing(toll{"quote"}), `"op": "quote", "quote": {"input": 10, "output_max": 10},
			"want": {"quote": {"upper": 4800, "minimum": 26400}}`, "the quote has minimum 26400 and upper 4800"},
		{translator(&clerk{}), `"op": "response", "facts": {"id": "torn"}, "events": [], "want": {"body": "{\"text\":\"\"}}"}`,
			"the body is not JSON"},
		{frozen("translator", []byte("none")), `"op": "error", "facts": {"stream": true}, "error": {"status": 500, "kind": "internal"},
			"want": {"stream": "none"}`, "does not begin with a field"},
		{frozen("admission", abi.Decision{Verdict: abi.Reserve, Takes: []abi.Take{{Limit: 1, Max: 1}}}.Append(nil)),
			`"op": "decide", "admission": {}, "want": {"decision": {"verdict": "reserve", "takes": [{"limit": 1, "max": 1}]}}`,
			"takes of 1 counters, the manifest has 0"},
	} {
		s := c.subject
		s.Vectors = []byte(`[{"name": "v", ` + c.vector + `}]`)
		o := quick()
		o.only = []string{"vectors"}
		if r := Run(s, o); !strings.Contains(findings(r, "vectors"), c.says) {
			t.Errorf("want %q:\n%s", c.says, written(r))
		}
	}
}

// TestFreeIsFree: a manifest that says so may charge nothing.
func TestFreeIsFree(t *testing.T) {
	s := billing(toll{"free"})
	s.Free = true
	if r := Run(s, quick()); !r.Passed {
		t.Error(written(r))
	}
}

// TestFaultOfUsualCall is a module that dies on every answer.
func TestFaultOfUsualCall(t *testing.T) {
	s := translator(&clerk{})
	s.Open = func([]byte) (Guest, error) {
		return &handmade{h: func(op abi.Op, in, dst []byte) []byte {
			if op == abi.OpResponse {
				panic("no answers")
			}
			return sdk.TranslatorHandler(&clerk{})(op, in, dst)
		}}, nil
	}
	o := quick()
	o.only = []string{"ticks", "memory"}
	r := Run(s, o)
	if got := findings(r, "ticks"); !strings.Contains(got, "answer: trap: no answers") || slices.Contains(failed(r), "memory") {
		t.Errorf("failed %v:\n%s", failed(r), written(r))
	}
}

func TestUpdate(t *testing.T) {
	file := vector.File{Vectors: mustParse(t, `[{"name": "new", "op": "request", "body": "no", "want": {"refusal": {"msg": "old"}}}]`)}
	o := quick()
	o.only = []string{"vectors"}
	o.Files = []vector.File{file}
	s := translator(&clerk{})
	if r := Run(s, o); r.Passed {
		t.Error("a wrong vector of a file passes")
	}
	o.Update = true
	r := Run(s, o)
	if !r.Passed || !strings.Contains(written(r), `"new": its want was written`) {
		t.Error(written(r))
	}
	if got := vector.Format(file.Vectors); !bytes.Contains(got, []byte("the body is no chat request")) {
		t.Errorf("%s", got)
	}
}

// TestFilesReplace: a vector of the files stands for the module's of that name.
func TestFilesReplace(t *testing.T) {
	s := billing(toll{})
	s.Vectors = bytes.Replace(s.Vectors, []byte("26400"), []byte("1"), 1)
	o := quick()
	o.only = []string{"vectors"}
	if r := Run(s, o); r.Passed {
		t.Error("a wrong vector of the module passes")
	}
	o.Files = []vector.File{{Vectors: mustParse(t, tollVectors)}}
	if r := Run(s, o); !r.Passed || !strings.Contains(written(r), "1 of 1 pass") || !strings.Contains(written(r),
		"1 vectors in the module are not those of the folder") {
		t.Error(written(r))
	}
}

// TestFoundMoneyIsAVector: what the stage found can be pasted into a file of vectors.
func TestFoundMoneyIsAVector(t *testing.T) {
	for _, kind := range []string{"quote", "triple"} {
		o := quick()
		o.only = []string{"vectors", "money"}
		var found int
		for _, s := range Run(billing(toll{kind}), o).Stages {
			if s.Name != "money" {
				continue
			}
			for _, f := range s.Findings {
				_, input, _ := strings.Cut(f.What, "\n")
				if _, err := vector.Parse([]byte("[" + input + "]")); err != nil {
					t.Errorf("%s: %q: %v", kind, f.What, err)
				}
				found++
			}
		}
		if found == 0 || found > 2*wrongsShown {
			t.Errorf("%s: %d findings", kind, found)
		}
	}
}

// TestNativeIsInformation: what the shipped build does otherwise is told and
// fails nothing.
func TestNativeIsInformation(t *testing.T) {
	s := billing(toll{})
	s.Native = func(op abi.Op, in []byte) ([]byte, error) { return sdk.BillingHandler(toll{"quote"})(op, in, nil), nil }
	r := Run(s, quick())
	if !r.Passed || !strings.Contains(written(r), "the same for 0 of the 1 vectors") || !strings.Contains(written(r), "quote.upper is") {
		t.Error(written(r))
	}
}
