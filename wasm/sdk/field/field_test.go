package field

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// read reads a body with a member for each kind of value.
func read(body string, early bool) *Reader {
	r := &Reader{Op: "op"}
	if r.OpenBody([]byte(body)) {
		for r.S.Next() {
			switch string(r.S.Key()) {
			case "str":
				r.Str()
			case "text":
				r.Text()
			case "bool":
				r.Bool()
			case "number":
				r.Number()
			case "integer":
				r.Integer(0, "an integer")
			case "list":
				for r.Open(scan.Array); r.S.Next(); {
					r.Str()
				}
			case "object":
				if wrong := r.ObjectText(r.Text(), func(b []byte) string { return strconv.Quote(string(b)) }); wrong != "" {
					r.Fail(r.S.Path(), wrong)
				}
			case "never":
				r.Refuse("never", "not here")
			}
		}
	}
	r.End(early)
	return r
}

func TestErrors(t *testing.T) {
	cases := []struct{ body, says string }{
		{`{}`, ""},
		{`{"str":"a","text":"a\n","bool":true,"number":-1e5,"integer":5.0,"list":["a"],"object":" {\"a\":1}","other":[1]}`, ""},
		{`{"str":1}`, "str: want a string, not a number"},
		{`{"text":[]}`, "text: want a string, not an array"},
		{`{"bool":"x"}`, "bool: want a boolean, not a string"},
		{`{"number":true}`, "number: want a number, not a boolean"},
		{`{"integer":{}}`, "integer: want an integer, not an object"},
		{`{"integer":1.5}`, "integer: want an integer"},
		{`{"integer":-1}`, "integer: -1 is under 0"},
		{`{"list":null}`, "list: want an array, not null"},
		{`{"list":["a",2],"str":3}`, "list.1: want a string, not a number"},
		{`{"object":"[]"}`, "object: want the text of a JSON object, not of an array"},
		{`{"object":"{\"a\":1,\"a\":2}"}`, `object: the member "a" is there twice`},
		{`{"object":"x"}`, "object: want the text of a JSON object: invalid syntax at byte 0"},
		{`{"object":"{"}`, "object: want the text of a JSON object: it ends early"},
		{``, "the body is empty; want a JSON object"},
		{`[]`, "the body is an array; want a JSON object"},
		{`x`, "the body is not valid JSON: invalid syntax at byte 0"},
		{`{"a":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, "the body nests deeper than 128 levels"},
		{`{"a":tru}`, "a: the body is not valid JSON: invalid syntax at byte 8"},
		{`{"str":x,"bool":1}`, "str: the body is not valid JSON: invalid syntax at byte 7"},
		{`{"never":tru`, "never: not here"},
		{`{} x`, "the body is not valid JSON: something follows its end at byte 3"},
		{`{"list":["a"`, "the body is not valid JSON: it ends early"},
	}
	for _, c := range cases {
		r := read(c.body, false)
		switch {
		case c.says == "" && r.Err != nil, c.says != "" && r.Err == nil:
			t.Errorf("%s: %v, want %q", c.body, r.Err, c.says)
		case r.Err != nil && (r.Err.Message() != c.says || r.Err.Kind != abi.InvalidRequest || r.Err.Op != "op" ||
			r.Err.Reason != abi.ReasonField || r.OK()):
			t.Errorf("%s: %q, want %q", c.body, r.Err.Message(), c.says)
		}
	}
	if got := read(`{"list":["a"`, true).Err.Message(); got != "list.0: the body is not valid JSON: it ends early" {
		t.Error(got)
	}
}

func TestNeutralValues(t *testing.T) {
	at := func(value string) *Reader { // the last member of a body
		r := &Reader{}
		r.OpenBody([]byte(`{"field":` + value + `}`))
		r.S.Next()
		return r
	}
	for value, want := range map[string]bool{`[]`: true, `{}`: true, `[1]`: false, `{"a":[]}`: false, `5`: false, `""`: false, `true`: false} {
		for _, kind := range []scan.Kind{scan.Object, scan.Array} {
			r := at(value)
			want := want && r.S.Kind() == kind
			if got := r.Empty(kind); got != want {
				t.Errorf("%s is an empty %v: %v", value, kind, got)
			}
			if r.S.Next(); !r.S.End() {
				t.Errorf("behind %s the body is not over: %v", value, r.S.Err())
			}
		}
	}
	for value, want := range map[string]bool{`[]`: true, `["text"]`: true, `["text","audio"]`: false, `["audio","text"]`: false, `[1]`: false, `"text"`: false} {
		if got := at(value).OnlyText(); got != want {
			t.Errorf("%s is only text: %v", value, got)
		}
	}
	for value, want := range map[string]bool{`false`: true, `1`: true, `1.0`: true, `1e0`: true, `""`: true, `true`: false,
		`{}`: false, `0`: false, `2.0`: false, `1.00000000000000000001`: false, `"1"`: false} {
		if got := at(value).AsksNothing(); got != want {
			t.Errorf("%s asks for nothing: %v", value, got)
		}
	}
}

func TestCut(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("ü", 200), "x" + strings.Repeat("ü", 200), strings.Repeat("x", 257)} {
		got := Cut(s, 256)
		if len(got) > 259 || len(got) < min(len(s), 258) ||
			!utf8.ValidString(got) || len(s) <= 256 && got != s || len(s) > 256 && !strings.HasSuffix(got, "...") {
			t.Errorf("%d bytes became %q", len(s), got)
		}
	}
}
