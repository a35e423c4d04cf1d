package tokenizer

import (
	"testing"
	"unicode/utf8"
)

func FuzzRoundTrip(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Add("I'm 12345 naïve e\u0301 你好\r\n\r\n  x 🦙")
	toks := map[string]*Tokenizer{"single": withSingle(f)}
	for _, pre := range splitterNames() {
		toks[pre] = small(f, pre)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, tok := range toks {
			ids := tok.Encode(nil, s)
			var raw []byte
			for _, id := range ids {
				raw = append(raw, tok.Bytes(id)...)
			}
			if string(raw) != s || len(specialsIn(tok, ids)) > 0 {
				t.Fatalf("%s: %q comes back as %q", name, s, raw)
			}
			checkProtected(t, tok, s)
			var whole Decoder
			if want, got := whole.feed(string(raw))+whole.Flush(), decode(tok, ids); got != want {
				t.Fatalf("%s: streaming %q gives %q, want %q", name, s, got, want)
			}
		}
	})
}

// Every cut of a byte string into two gives the same text.
func FuzzDecoderCuts(f *testing.F) {
	f.Add([]byte("a\xf0\x9f\x98\x80\xe2\x82\xff\xed\xa0\x80\xf4\x90"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var whole Decoder
		want := whole.feed(string(raw)) + whole.Flush()
		if utf8.Valid(raw) && want != string(raw) {
			t.Fatalf("%q became %q", raw, want)
		}
		for cut := range raw {
			var d Decoder
			first := d.feed(string(raw[:cut]))
			if got := first + d.feed(string(raw[cut:])) + d.Flush(); got != want || !utf8.ValidString(first) {
				t.Fatalf("%q cut at %d gives %q, want %q", raw, cut, got, want)
			}
		}
	})
}
