package grammar

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestHostileMemory has grammars whose sets are large and never the same, because every item of a
// list goes on elsewhere: what a matcher remembers of them is bounded, however long the answer is.
func TestHostileMemory(t *testing.T) {
	const most = 24 << 20
	v := vocabulary()
	for name, c := range map[string]struct{ items, item string }{
		"equal values":     {`{"enum":[1` + strings.Repeat(",1", 20_000) + `]}`, "1"},
		"optional members": {`{"type":"object","properties":{` + many(1400, `"aN":{"type":"null"}`) + `}}`, "{}"},
	} {
		schema := `{"type":"array","minItems":1000,"maxItems":1000,"items":` + c.items + `}`
		g, err := Compile(Form{Text: json.RawMessage(schema)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := heap()
		m := g.NewMatcher(v)
		text := "[" + strings.Repeat(c.item+",", 200)
		for i, token := range []byte(text) {
			if !m.Allows(int32(token)) {
				t.Fatalf("%s: %q is refused behind %d bytes", name, token, i)
			}
			m.Accept(int32(token))
			if i%50 == 0 {
				if took := heap() - before; took > most {
					t.Errorf("%s: %d bytes behind %d bytes of text", name, took, i)
					break
				}
			}
		}
		t.Logf("%s: %d bytes, %d sets", name, heap()-before, len(m.sets))
		runtime.KeepAlive(m)
	}
}
