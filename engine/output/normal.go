package output

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Normal returns a JSON value of a call as every protocol takes it back with the next
// turn: without the whitespace between its tokens, with U+FFFD for each half of a
// surrogate pair, and with each name once in its object. Of members that share a name the
// last one stays, where it stands: what most readers of JSON make of them.
// It takes time in proportion to the text, however deep that nests.
func Normal(raw []byte) (string, bool) {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "", false
	}
	text := b.Bytes()
	mendSurrogates(text)
	if !jsontext.Value(text).IsValid() {
		text = lastMembers(text)
	}
	return string(text), true
}

// mendSurrogates overwrites each escape in a JSON text that is half of a surrogate pair.
func mendSurrogates(text []byte) {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return
		}
		text = text[at:]
		switch unit := codeUnit(text); {
		case unit < 0:
			text = text[2:]
		case !utf16.IsSurrogate(unit):
			text = text[6:]
		case utf16.DecodeRune(unit, codeUnit(text[6:])) != utf8.RuneError:
			text = text[12:]
		default:
			copy(text, `\ufffd`)
			text = text[6:]
		}
	}
}

// codeUnit reads the \u escape that a valid JSON text begins with; -1 if it is none.
func codeUnit(text []byte) rune {
	if !bytes.HasPrefix(text, []byte(`\u`)) {
		return -1
	}
	unit, _ := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit)
}

// lastMembers takes out of a compact JSON text, in place, each member whose name comes
// again in its object.
func lastMembers(text []byte) []byte {
	out, at := text[:0], 0
	for _, m := range members(text) {
		if m.again && m.from >= at { // else it is within one that is out
			out, at = append(out, text[at:m.from]...), m.to
		}
	}
	return append(out, text[at:]...)
}

// member is where a member of an object stands, with the comma behind it.
type member struct {
	from, to int  // to is 0 for an object's last
	again    bool // its name comes again
}

// members finds the members of all objects of a compact JSON text, in the order of the text.
func members(text []byte) (all []member) {
	type scope struct{ object, member int } // its brace, -1 for an array; the member it is in, -1 before the first
	type name struct {
		object int
		text   string
	}
	var scopes []scope
	latest := map[name]int{}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			scopes = append(scopes, scope{i, -1})
		case '[':
			scopes = append(scopes, scope{-1, -1})
		case '}', ']':
			scopes = scopes[:len(scopes)-1]
		case '"':
			from := i
			i = stringEnd(text, i)
			if len(scopes) == 0 || scopes[len(scopes)-1].object < 0 || text[from-1] == ':' {
				continue // a value
			}
			in := &scopes[len(scopes)-1]
			if in.member >= 0 {
				all[in.member].to = from
			}
			in.member = len(all)
			all = append(all, member{from: from})
			unquoted, _ := jsontext.AppendUnquote(nil, text[from:i+1]) // mended, so it is valid
			is := name{in.object, string(unquoted)}
			if earlier, found := latest[is]; found {
				all[earlier].again = true
			}
			latest[is] = in.member
		}
	}
	return all
}

// stringEnd is where the string that begins at from has its closing quote.
func stringEnd(text []byte, from int) int {
	for i := from + 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
}
