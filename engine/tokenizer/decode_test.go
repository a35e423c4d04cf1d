package tokenizer

import (
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestDecoderWithin: a character of two bytes is held until it is whole; the space that stands in front of a text is taken off once, and
// of a text that goes on it is not.
func TestDecoderWithin(t *testing.T) {
	tok := small(t, "gpt-2")
	d := tok.NewDecoder(false)
	for i, want := range []struct {
		text   string
		within bool
	}{{"", true}, {"é", false}, {"a", false}} {
		if got := d.Feed(tok.bytes["éa"[i]]); got != want.text || d.Within() != want.within {
			t.Errorf("byte %d: %q, within a character %v", i, got, d.Within())
		}
	}
	r := recordedSentences(t, "small.json")
	for i, f := range sentenceFiles(t, r) {
		tok, err := FromFile(f)
		if err != nil {
			t.Fatal(err)
		}
		space, ok := tok.ID(" ")
		if !ok {
			t.Fatal("no token of a space")
		}
		for _, within := range []bool{false, true} {
			d, want := tok.NewDecoder(within), "  "
			if r.Models[i].Prefix && !within {
				want = " "
			}
			if got := d.Feed(1) + d.Feed(space) + d.Feed(space); got != want {
				t.Errorf("model %d, within a text %v: %q, want %q", i, within, got, want)
			}
		}
	}
}

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
