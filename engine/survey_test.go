package engine

import (
	"fmt"
	"os"
	"testing"

	"corenode/engine/kv"
	"corenode/engine/trail"
)

// TestCacheIsListed: what lies in the cache is listed with its hits, of one account or all, and
// two requests are compared to the token while their pages are cached.
func TestCacheIsListed(t *testing.T) {
	o := options(CPU)
	data, err := os.ReadFile("model/testdata/parity/tiny-qwen3-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	o.Data, o.ContextLength = data, 8192
	o.Trails = trail.NewLog(1 << 20)
	e, s := open2(t, o)
	long := words(120)
	say := func(id, account, text string) {
		_, a := submitAs(t, s, id, account, ask(t, e, fmt.Sprintf(
			`{"model":"m","max_tokens":2,"temperature":0,"messages":[{"role":"user","content":%q}]}`, text)))
		runAll(t, s)
		if a.finished != 1 {
			t.Fatal(id)
		}
	}
	one := long + " and one ending, which goes on for some more words than a page holds"
	other := long + " and another one, which goes on for some more words than a page holds"
	say("r1", "alice", one)
	say("r2", "alice", other)
	say("r3", "bob", long)
	v := &kv.Survey{Max: 100}
	for s.Survey(v) {
	}
	if len(v.Spaces) != 2 || len(v.Prefixes) < 3 || v.Prefixes[0].Hits == 0 || AccountOf(v.Prefixes[0].Namespace) != "alice" {
		t.Fatalf("%+v %+v", v.Spaces, v.Prefixes)
	}
	only := &kv.Survey{Max: 100, Match: func(namespace string) bool { return AccountOf(namespace) == "bob" }}
	for s.Survey(only) {
	}
	if len(only.Spaces) != 1 || len(only.Prefixes) == 0 || only.Prefixes[0].Hits != 0 {
		t.Errorf("%+v %+v", only.Spaces, only.Prefixes)
	}
	a, b := o.Trails.Find("r1"), o.Trails.Find("r2")
	at, ok := s.Token(a, b)
	want := 0
	for p, q := tokensOfText(t, e, one), tokensOfText(t, e, other); p[want] == q[want]; {
		want++
	}
	if !ok || at != want {
		t.Fatalf("they differ at %d (%v), want %d", at, ok, want)
	}
	if verdict := trail.Compare(a, b, at); !verdict.Exact || !verdict.Part || verdict.Equal != at {
		t.Errorf("%+v: %s", verdict, verdict.Sentence())
	}
	if verdict := trail.Compare(a, o.Trails.Find("r3"), -1); verdict.Limit != trail.LimitAccount {
		t.Errorf("%+v", verdict)
	}
}

func tokensOfText(t *testing.T, e *Engine, text string) []int32 {
	t.Helper()
	return ask(t, e, fmt.Sprintf(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":%q}]}`, text)).Prompt
}
