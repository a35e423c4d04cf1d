package upstream

import (
	"slices"
	"testing"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// fixedCounter counts as many tokens of whatever is asked.
type fixedCounter int

func (n fixedCounter) Count(*messages.Request) (int, error) { return int(n), nil }

// TestUsageIsTheCount: where the model's tokenizer counts, a body has as many tokens when it is counted as
// when an answer begins, ends and is billed, though its server counts a few others. No more are cached.
func TestUsageIsTheCount(t *testing.T) {
	const tokens = 100
	for _, f := range slices.Concat(flavors, []wire.Flavor{wire.ChatCompletions}) {
		for _, off := range []int{7, -7} {
			s := start(t, f, plainAnswer)
			s.Tokens = func([]byte) int { return tokens + off }
			m := open(t, f, func(o *Options) { o.Counter = fixedCounter(tokens) }, s)
			q, err := messages.Parse([]byte(hello(true)))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := m.Count(q); n != tokens || err != nil {
				t.Errorf("%s: counted %d, %v", f, n, err)
			}
			l, cached := newLoop(t, m), int64(0)
			for range 2 { // the server has the second prompt cached, but for one token
				got := l.ask("a", hello(true))
				begin, end, billed := got.events[0].Usage, got.events[len(got.events)-1].Usage, got.result.Usage
				if begin.Input() != tokens || end.Input() != tokens || end != billed || billed.CacheRead != min(tokens, cached) {
					t.Errorf("%s, %+d: begins with %+v, ends with %+v, billed %+v", f, off, begin, end, billed)
				}
				if src := got.result.Source.Usage; src != engine.UsageReported {
					t.Errorf("%s, %+d: usage is %v", f, off, src)
				}
				if f.Isolates() {
					cached = int64(tokens + off - 1)
				}
			}
		}
	}
}

// TestUsageWithoutATokenizer: a report that is near another server's count stands as it is.
func TestUsageWithoutATokenizer(t *testing.T) {
	u := wire.Usage{Input: 107, Cached: 104, Output: 3, Known: true}
	got, source := checked(u, bounds{counted: 100, maxTokens: 9, delivered: 3})
	if want := (abi.Usage{InputUncached: 3, CacheRead: 104, Output: 3}); got != want || source != engine.UsageReported {
		t.Errorf("%+v, %v", got, source)
	}
}
