package guest

import (
	"bytes"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// TestErrorRecords: a module of ABI 1.0 is told of a failure in the sentence of
// the messages protocol, one of 1.1 as data.
func TestErrorRecords(t *testing.T) {
	in := abi.ErrorInput{Status: 400, Kind: abi.InvalidRequest, Param: "max_tokens",
		Detail: abi.Detail{Reason: abi.ReasonWindow, Prompt: 1, Value: 2, Bound: 3}}
	latest := in.Append(nil)
	if got := (&Manifest{ABI: ABI11}).Record(abi.OpError, latest); !bytes.Equal(got, latest) {
		t.Errorf("1.1: %q, want %q", got, latest)
	}
	old := (&Manifest{ABI: ABI10}).Record(abi.OpError, latest)
	const says = "max_tokens: input length and `max_tokens` exceed context limit: 1 + 2 > 3 (this model's maximum context length is 3 tokens; decrease the prompt or max_tokens)"
	got, err := abi.ParseErrorInput(old)
	if err != nil || got.Detail != (abi.Detail{}) || got.Param != in.Param || got.Msg != says || !bytes.Equal(old, in.Append10(nil)) {
		t.Errorf("1.0: %+v, %v", got, err)
	}
}

func TestManifest(t *testing.T) {
	cases := []struct{ text, says string }{
		{`{"name":"a.b-c_1","kind":"billing","version":"1.0.0","abi":"1.0","runtime":"go","description":"d","free":true,"memory_max_bytes":1,"ticks":{"call":1,"per_kb":2}}`, ""},
		{`{"name":"a","kind":"translator","protocol":"chat","version":"1","abi":"1.0","history":true}`, ""},
		{`{"name":"A","kind":"billing","version":"1","abi":"1.0"}`, "name is"},
		{`{"name":"-a","kind":"billing","version":"1","abi":"1.0"}`, "name is"},
		{`{"name":"a","kind":"billing","version":"1@2","abi":"1.0"}`, "version is"},
		{`{"name":"a","kind":"sieve","version":"1","abi":"1.0"}`, "kind is"},
		{`{"name":"a","kind":"translator","version":"1","abi":"1.0"}`, "protocol is"},
		{`{"name":"a","kind":"billing","protocol":"chat","version":"1","abi":"1.0"}`, "only a translator"},
		{`{"name":"a","kind":"billing","history":true,"version":"1","abi":"1.0"}`, "history"},
		{`{"name":"a","kind":"admission","free":true,"version":"1","abi":"1.0"}`, "free"},
		{`{"name":"a","kind":"billing","version":"1","abi":"1.0","ticks":{"call":-1}}`, "zero or more"},
		{`{"name":"a","kind":"billing","version":"1","abi":"1.0","color":"red"}`, "color"},
		{`{"name":"a","kind":"billing","version":"1","abi":"1.0"}{}`, "follows"},
		{`[]`, "manifest"},
		{``, "manifest"},
	}
	for _, c := range cases {
		_, err := ParseManifest([]byte(c.text))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.text, err, c.says)
		}
	}
	_, err := ParseManifest([]byte(`{}`))
	for _, key := range []string{"name", "version", "kind", "abi"} { // all problems at once
		if err == nil || !strings.Contains(err.Error(), key+" is") {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}

// TestBudget: what a manifest asks for is capped, what it leaves open has a default.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		m    Manifest
		op   abi.Op
		n    int
		want int64
	}{
		{Manifest{}, abi.OpRequest, 0, ticksRequest + ticksPerKB},
		{Manifest{}, abi.OpEvents, 5000, ticksEvents + 5*ticksPerKB},
		{Manifest{Runtime: RuntimeGo}, abi.OpEvents, 0, ticksGo + ticksPerKB},
		{Manifest{Ticks: Ticks{Call: 7, PerKB: 3}}, abi.OpCharge, 1024, 7 + 2*3},
		{Manifest{Ticks: Ticks{Call: 1 << 60, PerKB: 1 << 60}}, abi.OpRequest, 0, ticksCallMax + ticksPerKBMax},
	} {
		if got := c.m.Budget(c.op, c.n); got != c.want {
			t.Errorf("%+v, op %v, %d bytes: %d ticks, want %d", c.m, c.op, c.n, got, c.want)
		}
	}
	for asked, want := range map[int64]int64{0: memoryDefault, 1: pageBytes, 1 << 60: memoryMax} {
		m := Manifest{MemoryMaxBytes: asked}
		if got := m.memoryBytesMax(); got != want {
			t.Errorf("%d bytes of memory asked: %d, want %d", asked, got, want)
		}
	}
}
