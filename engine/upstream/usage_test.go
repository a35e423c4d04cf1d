package upstream

import (
	"fmt"
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

// TestUsageWithoutATokenizer: of a report that is near another server's count as much counts as was quoted by that count,
// since a charge is never above its quote. What the report has less is not charged.
func TestUsageWithoutATokenizer(t *testing.T) {
	for _, c := range []struct {
		counted int64
		u       wire.Usage
		want    abi.Usage
	}{
		{100, wire.Usage{Input: 107, Cached: 104, Output: 3, Known: true}, abi.Usage{CacheRead: 100, Output: 3}},
		{100, wire.Usage{Input: 107, Cached: 4, Output: 3, Known: true}, abi.Usage{InputUncached: 96, CacheRead: 4, Output: 3}},
		{100, wire.Usage{Input: 97, Cached: 4, Output: 3, Known: true}, abi.Usage{InputUncached: 93, CacheRead: 4, Output: 3}},
		{199_000, wire.Usage{Input: 202_900, Output: 3, Known: true}, abi.Usage{InputUncached: 199_000, Output: 3}}, // else of another tier
	} {
		got, source := checked(c.u, bounds{counted: c.counted, maxTokens: 9, delivered: 3})
		if got != c.want || source != engine.UsageReported {
			t.Errorf("%+v of %d: %+v, %v", c.u, c.counted, got, source)
		}
	}
}

// TestReasoningBesideTheCompletion: the completion alone has to fit in max_tokens, also where thinking is left out.
// No more than max_tokens is billed.
func TestReasoningBesideTheCompletion(t *testing.T) {
	const piece = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"
	const report = `data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":%d,"total_tokens":%d,` +
		`"completion_tokens_details":{"reasoning_tokens":500}}}` + "\n\n"
	for _, c := range []struct {
		completion  int
		loud, quiet int64 // of two pieces of text
		source      engine.UsageSource
	}{
		{90, 100, 90, engine.UsageReported},
		{101, 2, 2, engine.UsageCounted},
	} {
		for _, quiet := range []bool{false, true} {
			r := &relay{model: &Model{options: Options{Flavor: wire.ChatCompletions}}, sent: &sent{counted: 4, exact: true, quiet: quiet},
				job: &engine.Job{Request: &engine.Request{MaxTokens: 100}}, reader: wire.NewReader(wire.ChatCompletions, nil, nil)}
			for _, data := range []string{piece, piece, fmt.Sprintf(report, c.completion, 4+c.completion+500)} {
				if _, err := r.reader.Feed(nil, []byte(data)); err != nil {
					t.Fatal(err)
				}
			}
			want := map[bool]int64{false: c.loud, true: c.quiet}[quiet]
			if got, source := r.usage(); got.Output != want || source != c.source {
				t.Errorf("completion %d, thinking switched off %v: %+v, %v", c.completion, quiet, got, source)
			}
		}
	}
}
