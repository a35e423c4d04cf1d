package tokenizer

import (
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDecoderReplacesLikePython(t *testing.T) {
	var recorded struct{ Cases [][2]string }
	readJSON(t, "testdata/replace.json", &recorded)
	if len(recorded.Cases) < 100 {
		t.Fatalf("%d cases", len(recorded.Cases))
	}
	tok := small(t, "gpt-2")
	for _, c := range recorded.Cases {
		raw, _ := hex.DecodeString(c[0])
		var zero Decoder
		if got := zero.feed(string(raw)) + zero.Flush(); got != c[1] {
			t.Errorf("%s in one is %q, want %q", c[0], got, c[1])
		}
		d := tok.NewDecoder(false)
		var b strings.Builder
		for _, x := range raw {
			part := d.Feed(tok.bytes[x])
			if !utf8.ValidString(part) {
				t.Fatalf("%s: a part is %q", c[0], part)
			}
			b.WriteString(part + d.Feed(511)) // control tokens do not disturb
		}
		if got := b.String() + d.Flush(); got != c[1] {
			t.Errorf("%s byte by byte is %q, want %q", c[0], got, c[1])
		}
		if d.Flush() != "" {
			t.Error("a second Flush gives text")
		}
	}
}
