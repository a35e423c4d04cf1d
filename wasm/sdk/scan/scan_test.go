package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestValid(t *testing.T) {
	cases := []struct {
		text   string
		what   Problem
		offset int
	}{
		{`{}`, None, 0},
		{` [ 1 , -0.5e+3 , true,false,null, "aé\n\u00e9\ud83d\ude00" , {"a":{},"b":[]} ] `, None, 0},
		{`0`, None, 0},
		{`[{"a":[1]},[[1],2]]`, None, 0},
		{`"abc`, Truncated, 4},
		{`{"a\q":1}`, Syntax, 3},
		{`"plain text that is longer than eight bytes"`, None, 0},
		{"", Truncated, 0},
		{`  `, Truncated, 2},
		{`{`, Truncated, 1},
		{`{"a"`, Truncated, 4},
		{`{"a":`, Truncated, 5},
		{`{"a":1`, Truncated, 6},
		{`{"a":1,`, Truncated, 7},
		{`[1,]`, Syntax, 3},
		{`[,1]`, Syntax, 1},
		{`{,}`, Syntax, 1},
		{`{"a":1,}`, Syntax, 7},
		{`{a:1}`, Syntax, 1},
		{`{"a" 1}`, Syntax, 5},
		{`[1 2]`, Syntax, 3},
		{`[1}`, Syntax, 2},
		{`{"a":1]`, Syntax, 6},
		{`[[1}]`, Syntax, 3},
		{`01`, Syntax, 1},
		{`-`, Truncated, 1},
		{`-a`, Syntax, 1},
		{`1.`, Truncated, 2},
		{`1.e5`, Syntax, 2},
		{`1e`, Truncated, 2},
		{`+1`, Syntax, 0},
		{`tru`, Truncated, 3},
		{`trues`, Trailing, 4},
		{`nul1`, Syntax, 3},
		{`{} x`, Trailing, 3},
		{"\"a\nb\"", Syntax, 2},
		{"\"eight by\x00\"", Syntax, 9},
		{`"\q"`, Syntax, 1},
		{`"\u12g4"`, Syntax, 5},
		{`"\u12`, Truncated, 5},
		{`"\ud800"`, Surrogate, 1},
		{`"\ud800\n"`, Surrogate, 1},
		{`"\ud800\u0041"`, Surrogate, 1},
		{`"\udc00"`, Surrogate, 1},
		{"\"\xff\"", UTF8, 1},
		{"\"12345678\xc3\"", UTF8, 9},
		{"\"\xc0\x80\"", UTF8, 1},
		{"\"\xed\xa0\x80\"", UTF8, 1},
		{"\"\xf4\x90\x80\x80\"", UTF8, 1},
		{"\"\xe2\x82", UTF8, 1},
		{"\xef\xbb\xbf{}", Syntax, 0},
		{strings.Repeat("[", 128) + strings.Repeat("]", 128), None, 0},
		{strings.Repeat("[", 129) + strings.Repeat("]", 129), TooDeep, 128},
		{strings.Repeat(`{"a":`, 129), TooDeep, 5 * 128},
		{strings.Repeat(`{"a":[`, 64) + "1" + strings.Repeat("]}", 64), None, 0},
	}
	for _, c := range cases {
		err := Valid([]byte(c.text))
		if err == nil {
			err = &Error{}
		}
		if err.What != c.what || err.Offset != c.offset {
			t.Errorf("%q: %v (problem %d, offset %d), want problem %d at %d", c.text, err, err.What, err.Offset, c.what, c.offset)
		}
	}
}

// TestWalk reads one of everything and leaves some of it unread.
// TestCharacters: bytes outside ASCII are good where they are UTF-8, and escapes where they are whole characters.
func TestCharacters(t *testing.T) {
	good := func(text string) bool { return Valid([]byte(`"`+text+`"`)) == nil }
	for first := 0x80; first < 0x100; first++ {
		for _, second := range "\x7F\u0080\u008F\u0090\u009F\u00A0\u00BF\u00C0" {
			for _, third := range "\x7F\u0080\u00BF\u00C0" {
				for _, fourth := range "\x7F\u0080\u00BF\u00C0" {
					bytes := []byte{byte(first), byte(second), byte(third), byte(fourth)}
					for n := 1; n <= len(bytes); n++ {
						text := string(bytes[:n])
						if err := Valid([]byte(`"` + text + `"`)); (err == nil) != utf8.ValidString(text) || err != nil && err.What != UTF8 {
							t.Errorf("%x: %v", text, err)
						}
					}
				}
			}
		}
	}
	units := []rune{0, 'a', 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFFFF}
	for _, a := range units {
		for _, b := range units {
			whole := !utf16.IsSurrogate(a) && !utf16.IsSurrogate(b) || utf16.DecodeRune(a, b) != utf8.RuneError
			if text := fmt.Sprintf(`\u%04x\u%04X`, a, b); good(text) != whole {
				t.Errorf("%s is good: %t", text, good(text))
			}
		}
	}
	for c := range byte(0x80) {
		if digit := strings.IndexByte("0123456789abcdefABCDEF", c) >= 0; c >= ' ' && good(`\u00`+string(c)+`0`) != digit {
			t.Errorf("%q is a digit: %t", c, !digit)
		}
	}
}

// TestCut: a text that ends before its value does says so, wherever that is.
func TestCut(t *testing.T) {
	const text = `{"a\n\ud83d\ude00":[1.5e+3,-2,true,false,null,"long enough for eight"],"b":{"c":[[],{}]}}`
	for n := range len(text) {
		if err := Valid([]byte(text[:n])); err == nil || err.What != Truncated {
			t.Errorf("%s: %v", text[:n], err)
		}
	}
}

func TestWalk(t *testing.T) {
	var s Scanner
	s.Reset([]byte(` {"model":"m\u0041", "skipped":[1,{"x":2}], "messages":[{"role":"user"},{"content":"a\"b"}], "n":5.0, "on":true, "none":null, "raw": {"k" : 1} } `))
	var got []string
	note := func(parts ...string) { got = append(got, strings.Join(parts, " ")) }
	for s.Open(); s.Next(); {
		switch string(s.Key()) {
		case "model":
			text, ok := s.Text()
			note(s.Path(), string(text), strconv.FormatBool(ok))
		case "messages":
			for s.Open(); s.Next(); {
				for s.Open(); s.Next(); {
					if _, ok := s.Number(); ok {
						t.Error("a string was read as a number")
					}
					raw, _ := s.Str()
					note(s.Path(), string(raw))
				}
				note("end", s.Path())
			}
			note("end", s.Path(), strconv.Itoa(s.Index()))
		case "n":
			n, ok := s.Int()
			note(s.Path(), strconv.FormatInt(n, 10), strconv.FormatBool(ok))
		case "on":
			v, ok := s.Bool()
			note(s.Path(), strconv.FormatBool(v), strconv.FormatBool(ok))
		case "none":
			note(s.Path(), strconv.FormatBool(s.Null()))
		case "raw":
			note(s.Path(), string(s.Raw()))
		}
	}
	if !s.End() || s.Err() != nil {
		t.Fatal(s.Err())
	}
	want := []string{"model mA true", "messages.0.role user", "end messages.0", `messages.1.content a\"b`, "end messages.1",
		"end messages 2", "n 5 true", "on true true", "none true", `raw {"k" : 1}`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNextMember: members that are null are not there, and an error among them is told.
func TestNextMember(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                        "",
		`{"a":null}`:                "",
		`{"a":null,"b":1,"c":null}`: "b1 ",
		`{"a":[null],"b":null,"c":null,"d":"null"}`: `a[null] d"null" `,
		`{"a":1,"b"}`: "a1 syntax",
	} {
		var s Scanner
		s.Reset([]byte(text))
		got := ""
		for s.Open(); s.NextMember(); {
			got += string(s.Key()) + string(s.Raw()) + " "
		}
		if !s.End() {
			got += "syntax"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestErrorsStick walks a broken text: no loop goes on and every read says no.
func TestErrorsStick(t *testing.T) {
	var s Scanner
	s.Reset([]byte(`{"a":[{"b":tru}],"c":1}`))
	for s.Open(); s.Next(); {
		for s.Open(); s.Next(); {
			for s.Open(); s.Next(); {
				if _, ok := s.Bool(); ok || s.Kind() != Invalid {
					t.Error("read a broken value")
				}
			}
		}
	}
	if err := s.Err(); err == nil || err.Offset != 14 || err.Error() != "invalid syntax at byte 14" {
		t.Errorf("got %v", err)
	}
	if s.Path() != "a.0.b" || s.End() || s.Open() || s.Null() || s.Raw() != nil {
		t.Errorf("the scanner goes on after an error, at %q", s.Path())
	}
}

func duplicate(text []byte) (string, bool) {
	var s Scanner
	s.Reset(text)
	return s.Duplicate()
}

func TestStop(t *testing.T) {
	var s Scanner
	s.Reset([]byte(`{"a":[1,2],"b":3}`))
	steps := 0
	for s.Open(); s.Next(); {
		for s.Open(); s.Next(); {
			steps++
			s.Stop()
		}
	}
	if steps != 1 || s.Err() != nil || s.End() || s.Path() != "a.0" {
		t.Errorf("%d steps, error %v, at %q", steps, s.Err(), s.Path())
	}
}

func TestInteger(t *testing.T) {
	cases := []struct {
		text string
		n    int64
		ok   bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"0e99999999999", 0, true}, {"5", 5, true}, {"-5.0", -5, true}, {"50e-1", 5, true},
		{"1e3", 1000, true}, {"1E+3", 1000, true}, {"0.5e1", 5, true}, {"1.5", 0, false}, {"1e-1", 0, false}, {"0.001e3", 1, true},
		{"9007199254740992", 1 << 53, true}, {"-9007199254740992", -1 << 53, true}, {"9007199254740993", 0, false}, {"1e15", 1e15, true},
		{"1e16", 0, false}, {"1e999999999999999999999", 0, false}, {"1e-999999999999999999999", 0, false}, {"100.00", 100, true},
		{"10001e15", 0, false}, {"-18447e15", 0, false}, {"9007199254740992e15", 0, false}, {"92233720368547758070", 0, false},
		{"9007199254740993e0", 0, false}, {"9007199254740990e1", 0, false},
		{"123456789012345678901234567890e-25", 0, false}, {"1" + strings.Repeat("0", 40) + "e-40", 1, true},
	}
	for _, c := range cases {
		if n, ok := Integer([]byte(c.text)); n != c.n || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.text, n, ok, c.n, c.ok)
		}
	}
}

// TestRepeated compares with a set, over names that are alike for long and end
// anywhere.
func TestRepeated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		set, twice := map[string]bool{}, false
		var names [][]byte
		for range fewNames + 1 + r.IntN(40) {
			name := bytes.Repeat([]byte{'x'}, r.IntN(3)*r.IntN(24*pieceBytes))
			for range r.IntN(8) {
				name = append(name, "\x00ab\xff"[r.IntN(4)])
			}
			twice = twice || set[string(name)]
			set[string(name)] = true
			names = append(names, name)
		}
		got := repeated(slices.Clone(names))
		n := 0
		for _, name := range names {
			if got != nil && bytes.Equal(name, got) {
				n++
			}
		}
		if (got != nil) != twice || got != nil && n < 2 {
			t.Fatalf("%q is there %d times of %q, want twice %v", got, n, names, twice)
		}
	}
}

func TestDuplicate(t *testing.T) {
	cases := []struct {
		text, path string
		found      bool
	}{
		{`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}`, "", false},
		{`{"a":1,"a":2}`, "a", true},
		{`{"a":1,"b":2,"c":3,"b":4}`, "b", true},
		{`{"a":1,"\u0061":2}`, "a", true},
		{`{"a":[1,{"b":{"x":1,"y":2,"x":3}}]}`, "a.1.b.x", true},
		{`{"":1,"":2}`, "", true},
		{`[1,"a","a"]`, "", false},
		{`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10}`, "", false},
		{`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":{"h":1},"i":9,"c":10}`, "c", true},
	}
	for _, c := range cases {
		if path, found := duplicate([]byte(c.text)); path != c.path || found != c.found {
			t.Errorf("%s: %q, %v; want %q, %v", c.text, path, found, c.path, c.found)
		}
	}
	var s Scanner
	s.Reset([]byte(`{"in":{"x":{"y":1,"y":2}}}`))
	for s.Open(); s.Next(); {
		if path, found := s.Duplicate(); path != "x.y" || !found {
			t.Errorf("within an object: %q, %v", path, found)
		}
		s.Stop()
	}
}

func TestNoAllocations(t *testing.T) {
	text := []byte(`{"a":"b","c":[1,2,{"d":null}],"e":-1.5e3,"f":"é"}`)
	var s Scanner
	if n := testing.AllocsPerRun(10, func() {
		s.Reset(text)
		for s.Open(); s.Next(); {
			_ = s.Key()
			s.Skip()
		}
		if !s.End() {
			t.Fatal(s.Err())
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzScan holds the scanner against two other readers: it accepts what
// jsontext accepts (names may repeat, DepthMax levels) and nothing that
// encoding/json refuses, and walking gives the values that decoding gives.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e-3,{"b":"\ud83d\ude00é\n"}],"c":null}`, `[true,false,"\u00e9"]`, `{"a":1,"a":2}`,
		`"\ud800"`, "\"\xff\"", `-0.0`, `[[[]]]`, `{"long name with many letters":"0123456789abcdef\\"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := Valid(text)
		if err == nil && !json.Valid(text) {
			t.Fatalf("accepted %q, which encoding/json refuses", text)
		}
		if deep := err != nil && err.What == TooDeep; !deep && (err == nil) != accepted(text) {
			t.Fatalf("%q: %v, jsontext says %v", text, err, accepted(text))
		}
		var s Scanner
		s.Reset(text)
		walked := walk(&s, nil)
		if s.End() != (err == nil) {
			t.Fatalf("%q: walking says %v, checking %v", text, s.Err(), err)
		}
		if err != nil {
			if s.Err().What != err.What || s.Err().Offset != err.Offset {
				t.Fatalf("%q: walking says %v, checking %v", text, s.Err(), err)
			}
			return
		}
		want := jsontext.Value(bytes.Clone(text))
		if e := want.Format(jsontext.AllowDuplicateNames(true)); e != nil {
			t.Fatal(e)
		}
		got := jsontext.Value(walked)
		if e := got.Format(jsontext.AllowDuplicateNames(true)); e != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q was read as %q, want %q (%v)", text, got, want, e)
		}
		if _, found := duplicate(text); found == jsontext.Value(text).IsValid() {
			t.Fatalf("%q: found a name twice: %v", text, found)
		}
	})
}

func accepted(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	if d.SkipValue() != nil {
		return false
	}
	_, err := d.ReadToken()
	return err == io.EOF
}

// walk writes the value the scanner stands before from what its reads return.
func walk(s *Scanner, dst []byte) []byte {
	switch s.Kind() {
	case String:
		text, ok := s.Text()
		if !ok {
			return dst
		}
		quoted, _ := jsontext.AppendQuote(dst, text)
		return quoted
	case Object, Array:
		object := s.Kind() == Object
		begin := len(dst)
		dst = append(dst, '[')
		for s.Open(); s.Next(); {
			if s.Index() > 0 {
				dst = append(dst, ',')
			}
			if object {
				quoted, _ := jsontext.AppendQuote(dst, s.Key())
				dst = append(quoted, ':')
			}
			dst = walk(s, dst)
		}
		if object {
			dst[begin] = '{'
			return append(dst, '}')
		}
		return append(dst, ']')
	case Bool:
		v, _ := s.Bool()
		return strconv.AppendBool(dst, v)
	case Number:
		text, _ := s.Number()
		return append(dst, text...)
	case Null:
		s.Null()
		return append(dst, "null"...)
	}
	return dst
}

func BenchmarkSkip(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"ascii", `{"a":"` + strings.Repeat("The quick brown fox jumps. ", 4000) + `"}`},
		{"escapes", `{"a":"` + strings.Repeat(`line of code\n\t"x\"`+`\"`, 0) + strings.Repeat(`a line of code;\n\t\"`, 5000) + `"}`},
		{"cjk", `{"a":"` + strings.Repeat("日本語のテキスト。", 4000) + `"}`},
		{"tokens", `[` + strings.Repeat(`{"a":1,"b":[true,null]},`, 4000) + `0]`},
	} {
		b.Run(c.name, func(b *testing.B) {
			text := []byte(c.text)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if Valid(text) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

// TestLongPath: a path is bounded, and stays text, wherever it is cut.
func TestLongPath(t *testing.T) {
	for _, name := range []string{strings.Repeat("ü", 1<<12), "a" + strings.Repeat("ü", 1<<12), strings.Repeat(`\u00fc`, 1<<12), strings.Repeat(`\ud83d\ude00`, 1<<12)} {
		var s Scanner
		s.Reset([]byte(`{"` + name + `":{"` + name + `":tru}}`))
		s.Open()
		s.Next()
		s.Open()
		s.Next()
		s.Skip()
		if path := s.Path(); s.Err() == nil || len(path) < 500 || len(path) > 2<<10 || !utf8.ValidString(path) {
			t.Errorf("error %v, path of %d bytes: %.40q", s.Err(), len(path), path)
		}
	}
}

// TestUnescape has encoding/json as its oracle, for halves of pairs too, which a Scanner refuses.
func TestUnescape(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"plain", `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u00E9`, `\uffff`, `\ud83d\ude00`, `\ud83d`,
		`\ude00`, `\uDBFF\uDFFF`, "é", "budded"}
	for range 5000 {
		var raw string
		for range r.IntN(6) {
			raw += parts[r.IntN(len(parts))]
		}
		var want string
		if err := json.Unmarshal([]byte(`"`+raw+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got := Unescape([]byte("x"), []byte(raw)); string(got) != "x"+want {
			t.Fatalf("%s is read as %q, want %q", raw, got[1:], want)
		}
	}
}
