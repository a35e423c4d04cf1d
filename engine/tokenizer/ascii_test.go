package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// sameSplit compares the two ways to the first piece at every place of text.
func sameSplit(t *testing.T, text string) {
	t.Helper()
	for name, s := range splitters {
		for i := range len(text) {
			if got, want := s.next(text[i:]), s.nextAny(text[i:]); got != want {
				t.Fatalf("%s: the first piece of %q has %d bytes, want %d", name, text[i:], got, want)
			}
		}
	}
}

func TestASCIISplitsLikeAny(t *testing.T) {
	parts := strings.Split("a,B,z,Z,ab,Word,lettersmorethaneight,@,[,`,{,0,1,12,123,1234,',',','s,'S,'ll,'Re,.,!?,-,\x00,\x7f, , ,  ,   ,\t,\n,\r,\r\n,\n\n,\v,\f,"+
		"\u0085,\u00a0,é,\u017f,e\u0301,\u0301,你,，,½,🦙,\xff,\xc3", ",")
	r := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		sameSplit(t, b.String())
	}
	for c := range 256 { // every byte before, in and after a word
		sameSplit(t, string([]byte{byte(c)})+"word"+string([]byte{byte(c)})+"another one"+string([]byte{byte(c), byte(c)})+" x")
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("I'm 12345 naïve e\u0301 你好\r\n\r\n  x 🦙 'ſ \t(a)")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 1000 {
			sameSplit(t, text)
		}
	})
}
