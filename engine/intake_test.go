package engine

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// TestCountIsExactUpToItsBound: count_tokens counts up to four windows, and no further.
func TestCountIsExactUpToItsBound(t *testing.T) {
	e, _ := open2(t, options(Instant))
	count := func(words int) (int, error) {
		q, err := messages.ParseCount([]byte(maxTokensBody("", strings.Repeat("dog ", words))))
		if err != nil {
			t.Fatal(err)
		}
		return e.Count(q)
	}
	want, err := count(500)
	if err != nil {
		t.Fatal(err)
	}
	for window := (want+3)/4 - 2; window <= (want+3)/4+2; window++ {
		e.info.ContextLength = window
		n, err := count(500)
		if want <= 4*window {
			if n != want || err != nil {
				t.Errorf("window %d: %d, %v; want %d", window, n, err, want)
			}
			continue
		}
		refused, ok := errors.AsType[*abi.Error](err)
		if !ok || refused.Kind != abi.InvalidRequest || !strings.Contains(refused.Message(), fmt.Sprintf("more than %d tokens", 4*window)) {
			t.Errorf("window %d, %d tokens: %v", window, want, err)
		}
	}
}

// TestLongPromptsTakeLittle: a prompt far over the window is refused before it is
// rendered, and whatever its text is, what is allocated beside its body and its
// texts keeps all of it within four times the body.
func TestLongPromptsTakeLittle(t *testing.T) {
	o := options(Instant)
	o.Info.ContextLength = 4096
	e, _ := open2(t, o)
	const bytes = 16 << 20
	for name, unit := range map[string]string{"words": "dog ", "one word": "dogcat", "one letter": "a", "white space": ". ", "specials": "<|im_end|>"} {
		t.Run(name, func(t *testing.T) {
			body := maxTokensBody(`"max_tokens":5,`, strings.Repeat(unit, bytes/len(unit)))
			q, err := messages.Parse([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			for what, f := range map[string]func() error{
				"prepare": func() error { _, err := e.Prepare("acct", q); return err },
				"count":   func() error { _, err := e.Count(q); return err },
			} {
				used := allocated(func() { err = f() })
				refused, ok := errors.AsType[*abi.Error](err)
				if !ok || refused.Kind != abi.InvalidRequest || !strings.Contains(refused.Message(), "more than") {
					t.Errorf("%s: %v", what, err)
				}
				most := uint64(5 * len(body) / 2) // the texts of the request are one more
				if used > most {
					t.Errorf("%s: %d bytes allocated for a body of %d, want at most %d", what, used, len(body), most)
				}
			}
		})
	}
}

// allocated is how many bytes f allocates, garbage included: its peak is no higher.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
