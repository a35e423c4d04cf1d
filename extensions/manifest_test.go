package extensions

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

func TestManifest(t *testing.T) {
	cases := []struct{ text, says string }{
		{`{"name":"a.b-c_1","kind":"billing","version":"1.0.0","abi":"1.0","runtime":"go","description":"d","free":true,"memory_max_bytes":1,"ticks":{"call":1,"per_kb":2}}`, ""},
		{`{"name":"a","kind":"translator","protocol":"chat","version":"1","abi":"1.0","history":true}`, ""},
		{`{"name":"A","kind":"billing","version":"1","abi":"1.0"}`, "name is"},
		{`{"name":"-a","kind":"billing","version":"1","abi":"1.0"}`, "name is"},
		{`{"name":"a","kind":"billing","version":"1@2","abi":"1.0"}`, "version is"},
		{`{"name":"a","kind":"filter","version":"1","abi":"1.0"}`, "kind is"},
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
		{Manifest{Runtime: runtimeGo}, abi.OpEvents, 0, ticksGo + ticksPerKB},
		{Manifest{Ticks: Ticks{Call: 7, PerKB: 3}}, abi.OpCharge, 1024, 7 + 2*3},
		{Manifest{Ticks: Ticks{Call: 1 << 60, PerKB: 1 << 60}}, abi.OpRequest, 0, ticksCallMost + ticksPerKBMost},
	} {
		if got := c.m.budget(c.op, c.n); got != c.want {
			t.Errorf("%+v, op %v, %d bytes: %d ticks, want %d", c.m, c.op, c.n, got, c.want)
		}
	}
	for asked, want := range map[int64]int64{0: memoryDefault, 1: pageBytes, 1 << 60: memoryMost} {
		m := Manifest{MemoryMaxBytes: asked}
		if got := m.memoryMax(); got != want {
			t.Errorf("%d bytes of memory asked: %d, want %d", asked, got, want)
		}
	}
}

// FuzzManifest: what is accepted is written and read back the same.
// TestErrorRecords: a module of ABI 1.0 is told of a failure in the sentence of
// the messages protocol, one of 1.1 as data.
func TestErrorRecords(t *testing.T) {
	in := abi.ErrorInput{Status: 400, Kind: abi.InvalidRequest, Param: "max_tokens",
		Detail: abi.Detail{Reason: abi.ReasonWindow, Prompt: 1, Value: 2, Bound: 3}}
	latest := in.Append(nil)
	if got := (&Manifest{ABI: abi11}).record(abi.OpError, latest); !bytes.Equal(got, latest) {
		t.Errorf("1.1: %q, want %q", got, latest)
	}
	old := (&Manifest{ABI: abi10}).record(abi.OpError, latest)
	const says = "max_tokens: the prompt has 1 tokens and max_tokens is 2: together more than the context window of 3"
	got, err := abi.ParseErrorInput(old)
	if err != nil || got.Detail != (abi.Detail{}) || got.Param != in.Param || got.Msg != says || !bytes.Equal(old, in.Append10(nil)) {
		t.Errorf("1.0: %+v, %v", got, err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"name":"a","kind":"billing","version":"1","abi":"1.0","free":true,"ticks":{"call":5}}`))
	f.Add([]byte(`{"name":"a","kind":"translator","protocol":"chat","version":"1","abi":"1.0"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		if m.slot().index() < 0 {
			t.Fatalf("an accepted manifest has no slot: %+v", m)
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseManifest(again); err != nil || back != m {
			t.Errorf("%+v became %+v, %v", m, back, err)
		}
	})
}

// TestNewManifests: a module that is loaded now has a name of its own and asks for
// no more than there is; one that was taken before these rules serves on.
func TestNewManifests(t *testing.T) {
	set := func(change func(*Manifest)) []byte {
		g := newGuest(SlotChat, "1")
		g.answers = chatAnswers("1")
		change(&g.manifest)
		return g.bytes(t)
	}
	ships := testShipped()
	own := set(func(m *Manifest) { m.Name = "own" })
	ships[0].name, ships[0].digest = "own", digestOf(own)
	cases := []struct {
		name, says string
		wasm       []byte
	}{
		{"a shipped name", `the name "chat" is that of a module of the program`, set(func(m *Manifest) { m.Name = "chat" })},
		{"the shipped name of another slot", `the name "responses"`, set(func(m *Manifest) { m.Name = "responses" })},
		{"another file of that name", `the name "own"`, set(func(m *Manifest) { m.Name, m.Version = "own", "2" })},
		{"that very file", "", own},
		{"too much memory", "memory_max_bytes is 536870913, at most 536870912", set(func(m *Manifest) { m.MemoryMaxBytes = memoryMost + 1 })},
		{"too many ticks, twice", "ticks.per_kb is 200001, at most 200000", set(func(m *Manifest) { m.Ticks = Ticks{ticksCallMost + 1, ticksPerKBMost + 1} })},
		{"the most of all", "", set(func(m *Manifest) { m.MemoryMaxBytes, m.Ticks = memoryMost, Ticks{ticksCallMost, ticksPerKBMost} })},
	}
	for _, c := range cases {
		h, _ := openWith(t, Options{AllowUnsigned: true}, ships)
		_, err := h.Load(t.Context(), c.wasm, nil, nil)
		var refused *LoadError
		if (err == nil) != (c.says == "") || err != nil && (!errors.As(err, &refused) || refused.Stage != "manifest" || refused.Fix == "" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if o, err := OpenOffline(c.wasm, nil); c.name == "a shipped name" || c.name == "too much memory" {
			if err == nil {
				t.Errorf("module check takes %s", c.name)
				o.Close()
			}
		}

		// A file that an earlier version of the program took, and its state.
		o := Options{Dir: t.TempDir(), AllowUnsigned: true}
		h, _ = openWith(t, o, ships)
		writeTestFile(t, h.path(digestOf(c.wasm), extWasm), c.wasm)
		h.state.Slots = map[Slot]wanted{SlotChat: {Active: digestOf(c.wasm)}}
		h.saveOrSay()
		_ = h.Close()
		h, l := openWith(t, o, ships)
		if got := stateOf(t, h, digestOf(c.wasm)); got != StateActive {
			t.Errorf("%s, after a restart: %s\n%s", c.name, got, l)
		}
		_ = h.Close()
	}
}
