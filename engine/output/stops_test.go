package output

import (
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// TestIgnoredStops: the first stop sequence that ends behind what is ignored ends the answer, also one that begins before that,
// however the text is cut and wherever the ignored part of it ends.
func TestIgnoredStops(t *testing.T) {
	for _, c := range []struct {
		text  string
		stops []string
		tools []Tool
	}{
		{"abcabcabd and so on", []string{"abcabd"}, nil},
		{"cccccccccc", []string{"cc"}, nil},
		{"cccccccccc", []string{"c", "ccc"}, nil},
		{"one b two abc three b", []string{"abc", "b"}, nil},
		{"one \n\n two \n\n three", []string{"\n\n"}, []Tool{{Name: "f"}}},
		{"<thin>k it </thin>", []string{"n>k", "it"}, nil},
		{"nothing here", []string{"nowhere"}, nil},
	} {
		for ignored := range len(c.text) + 1 {
			want, stop := c.text, ""
			for end := ignored + 1; end <= len(c.text) && stop == ""; end++ {
				for _, s := range c.stops {
					if strings.HasSuffix(c.text[:end], s) && len(s) > len(stop) {
						want, stop = c.text[:end-len(s)], s
					}
				}
			}
			for size := 1; size <= 4; size++ {
				p := New(Options{Stops: c.stops, Tools: c.tools, Marked: true, Begun: size%2 == 0})
				var events []abi.Event
				for from := 0; from < len(c.text) && !p.Done(); {
					to := min(from+size, len(c.text))
					if from < ignored {
						to = min(to, ignored)
					}
					p.IgnoreStops(from < ignored)
					events = p.Feed(events, c.text[from:to])
					from = to
				}
				got := ""
				for _, e := range p.Finish(events, false) {
					got += e.Text
				}
				if _, hit := p.Stop(); hit != stop || got != want {
					t.Errorf("%q by %d, of which %d bytes are ignored: %q, stopped by %q; want %q, %q", c.text, size, ignored, got, hit, want, stop)
				}
			}
		}
	}
}
