package server

import (
	"strings"
	"sync/atomic"
	"testing"

	"corenode/wasm/abi"
)

// raising is a filter that shows text in capitals, or cannot be opened.
type raising struct {
	renaming
	refusal *abi.Error
	closes  atomic.Int32
}

func (*raising) Rewriting() bool { return false }
func (*raising) Filtering() bool { return true }

func (f *raising) Filter(string, string) (Filter, error) {
	if f.refusal != nil {
		return nil, f.refusal
	}
	return f, nil
}

func (*raising) Text(_ abi.Facts, _ abi.BlockKind, text string, _ bool) (string, error) {
	return strings.ToUpper(text), nil
}
func (f *raising) Close() { f.closes.Add(1) }

// TestNothingLeavesUnfiltered: where the filter cannot be opened the request is refused before anything is computed. One that was
// opened is closed at the end of its answer, whatever its form.
func TestNothingLeavesUnfiltered(t *testing.T) {
	for _, body := range []string{ask, askSSE} {
		f := &raising{refusal: &abi.Error{Kind: abi.Overloaded, Msg: "a module is not in memory"}}
		n := start(t, Config{}, newFakeBackend(say("secret")), func(d *Deps) { d.Policies = f })
		if r := n.post(body); r.StatusCode != 503 || n.backend.calls.Load() != 0 {
			t.Errorf("without the filter: %d %s, %d requests began", r.StatusCode, r.body, n.backend.calls.Load())
		}
		f.refusal = nil
		if r := n.post(body); r.StatusCode != 200 || !strings.Contains(r.body, "SECRET") || strings.Contains(r.body, "secret") {
			t.Errorf("%d %s", r.StatusCode, r.body)
		}
		waitFor(t, "the end of the exchange", func() bool { return n.s.requests.count() == 0 })
		if closes := f.closes.Load(); closes != 1 {
			t.Errorf("the filter was closed %d times", closes)
		}
	}
}
