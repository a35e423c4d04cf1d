// Package field reads the fields of a request's body, for translators. A Reader
// checks the kind of every value and keeps the first thing that is wrong with
// the body, as the error that the client gets. After it there are no more
// members: code reads straight on and looks at Err once, at the end.
//
//	r.Op = "chat.Request"
//	if r.OpenBody(body) {
//		for r.S.Next() {
//			switch string(r.S.Key()) {
//			case "model":
//				model = r.Str()
//			}
//		}
//	}
//	if r.End(false); r.Err != nil { ... }
package field

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// pathBytesMax bounds what an error repeats of a path, whose names are the client's.
const pathBytesMax = 256

// Reader reads one body. The zero value is ready for OpenBody. It is no small
// value: keep it where it is used again.
type Reader struct {
	S   scan.Scanner // of the body
	In  scan.Scanner // of a text inside the body, such as the arguments of a call
	Err *abi.Error   // of kind InvalidRequest: the first thing wrong with the body as a request
	Op  string       // of the error
}

// Fail keeps what is wrong with the field at path and ends the walk. A syntax
// error before it comes first: End finds that.
func (r *Reader) Fail(path, msg string) {
	if r.S.Err() == nil {
		r.Refuse(path, msg)
	}
}

// Refuse is Fail for a field that is not served whatever its value is: it comes
// before a syntax error in that.
func (r *Reader) Refuse(path, msg string) {
	if r.Err == nil {
		r.Err = &abi.Error{Kind: abi.InvalidRequest, Op: r.Op, Detail: abi.Detail{Reason: abi.ReasonField},
			Param: Cut(path, pathBytesMax), Msg: msg}
	}
	r.S.Stop()
}

// OK says whether nothing is wrong so far.
func (r *Reader) OK() bool { return r.Err == nil && r.S.Err() == nil }

// Cut shortens s to at most n bytes and an ellipsis, at the end of a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}

// Wrong fails because the value at path is of another kind than it should be.
func (r *Reader) Wrong(path, want string, got scan.Kind) {
	r.Fail(path, "want "+want+", not "+got.String())
}

// Want is Wrong for the value that the scanner stands before.
func (r *Reader) Want(want string) { r.Wrong(r.S.Path(), want, r.S.Kind()) }

// OpenBody steps into the object that body is.
func (r *Reader) OpenBody(body []byte) bool {
	r.S.Reset(body)
	if k := r.S.Kind(); k != scan.Object {
		r.Fail("", "the body is "+k.String()+"; want a JSON object")
	}
	return r.S.Open()
}

// End checks that the body is over and was valid. With early, the error of one
// that ends early says in which field.
func (r *Reader) End(early bool) {
	if r.Err != nil || r.S.End() {
		return
	}
	e := r.S.Err()
	switch {
	case e.What == scan.Truncated && e.Offset == 0:
		r.Refuse("", "the body is empty; want a JSON object")
	case e.What == scan.TooDeep:
		r.Refuse("", "the body nests deeper than "+strconv.Itoa(scan.DepthMax)+" levels")
	case e.What == scan.Truncated && !early:
		r.Refuse("", "the body is not valid JSON: "+e.Error())
	default:
		r.Refuse(r.S.Path(), "the body is not valid JSON: "+e.Error())
	}
}

// Open steps into the object or array that the scanner stands before.
func (r *Reader) Open(k scan.Kind) bool {
	if r.S.Kind() != k {
		r.Want(k.String())
		return false
	}
	return r.S.Open()
}

// Str reads a string, raw.
func (r *Reader) Str() []byte {
	raw, ok := r.S.Str()
	if !ok {
		r.Want("a string")
		return nil
	}
	return raw
}

// Text reads a string, unescaped.
func (r *Reader) Text() []byte {
	text, ok := r.S.Text()
	if !ok {
		r.Want("a string")
	}
	return text
}

// Bool reads a boolean.
func (r *Reader) Bool() bool {
	v, ok := r.S.Bool()
	if !ok {
		r.Want("a boolean")
	}
	return v
}

// Number reads a number and returns its text.
func (r *Reader) Number() []byte {
	text, ok := r.S.Number()
	if !ok {
		r.Want("a number")
	}
	return text
}

// Integer reads a number without a fraction, at least min, and returns its text
// too. A value of another kind is told that want is wanted.
func (r *Reader) Integer(min int64, want string) (n int64, text []byte) {
	text, ok := r.S.Number()
	if !ok {
		r.Want(want)
		return 0, nil
	}
	if n, ok = scan.Integer(text); !ok {
		r.Fail(r.S.Path(), "want an integer")
	} else if n < min {
		r.Fail(r.S.Path(), strconv.FormatInt(n, 10)+" is under "+strconv.FormatInt(min, 10))
	}
	return n, text
}

// Empty reads a value and says whether it is an object, or an array, without members.
func (r *Reader) Empty(kind scan.Kind) bool {
	empty := r.S.Kind() == kind
	if !r.S.Open() {
		return false
	}
	for r.S.Next() {
		empty = false
	}
	return empty
}

// OnlyText reads a value and says whether it is an array of modalities that has no other than text.
func (r *Reader) OnlyText() bool {
	only := r.S.Kind() == scan.Array
	if !r.S.Open() {
		return false
	}
	for r.S.Next() {
		v, _ := r.S.Text()
		only = only && string(v) == "text"
	}
	return only
}

// AsksNothing reads the value of a field of other servers and says whether it is
// one with which the field asks for nothing: false, 1 or an empty string.
func (r *Reader) AsksNothing() bool {
	if r.S.Kind() == scan.Number {
		n, _ := r.S.Int()
		return n == 1
	}
	switch string(r.S.Raw()) {
	case "false", `""`:
		return true
	}
	return false
}

// ObjectText says what is wrong with text as that of a JSON object without a name
// that is there twice; nothing for one that is. quote repeats the name.
func (r *Reader) ObjectText(text []byte, quote func([]byte) string) string {
	r.In.Reset(text)
	if k := r.In.Kind(); k != scan.Object && k != scan.Invalid {
		return "want the text of a JSON object, not of " + k.String()
	}
	if name, twice := r.In.Duplicate(); twice {
		return "the member " + quote([]byte(name)) + " is there twice"
	}
	if !r.In.End() {
		return "want the text of a JSON object: " + r.In.Err().Error()
	}
	return ""
}
