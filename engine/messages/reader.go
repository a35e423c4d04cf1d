package messages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/wasm/abi"
)

// invalid makes the error of a field, which says what is wrong with it.
func invalid(param, format string, args ...any) *abi.Error {
	return refuse(abi.ReasonField, param, cut(fmt.Sprintf(format, args...), msgBytesMax))
}

// noTag refuses a type that is none of the known ones, in the words by which clients find out what they may not send.
func noTag(param, kind, known string) *abi.Error {
	return invalid(param, "Input tag '%s' found using 'type' does not match any of the expected tags: %s", kind, known)
}

func refuse(reason abi.Reason, param, msg string) *abi.Error {
	return &abi.Error{Kind: abi.InvalidRequest, Op: "messages.Parse", Detail: abi.Detail{Reason: reason},
		Msg: msg, Param: cut(param, pathBytesMax)}
}

// Bounds of an error: names and values in it are the client's, who may have
// made one as long as a body.
const (
	pathBytesMax = 256
	msgBytesMax  = 512
)

// cut shortens s to at most n bytes and an ellipsis, at the end of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}

// reader walks a JSON body. The first error sticks: later calls do nothing,
// so that parse functions read straight on and the caller checks once.
type reader struct {
	dec  *jsontext.Decoder
	base string // path of the value that dec reads, empty for the whole body
	err  *abi.Error

	form    form
	heard   heard
	items   int      // messages and content blocks
	skipped []string // names of the server-side tools
	listed  int      // elements of tools
	added   []Tool   // that messages define
}

// within reads a part of the body, which was read as it is and stands there.
func within(part []byte, at string) *reader {
	return &reader{dec: jsontext.NewDecoder(bytes.NewBuffer(part)), base: at}
}

// decoder is a jsontext.Decoder with its source: what the decoder remembers of
// an object's names is used again for the next body.
type decoder struct {
	jsontext.Decoder
	source bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// decoderKeepMax is the largest body, in bytes, whose decoder is kept: the
// memory of one is in proportion to its body.
const decoderKeepMax = 64 << 10

// openDecoder reads body, which must not change until close.
func openDecoder(body []byte) *decoder {
	d := decoders.Get().(*decoder)
	d.source = *bytes.NewBuffer(body)
	d.Reset(&d.source)
	return d
}

// close ends the use of a decoder for a body of so many bytes, and of the body.
func (d *decoder) close(size int) {
	if size > decoderKeepMax {
		return
	}
	d.source = bytes.Buffer{}
	d.Reset(&d.source)
	decoders.Put(d)
}

// path is where the reader stands, such as "messages.0.content".
func (r *reader) path() string {
	p := dotted(r.dec.StackPointer())
	if r.base != "" && p != "" {
		return r.base + "." + p
	}
	return r.base + p
}

// dotted turns a JSON pointer into a path as clients know it.
func dotted(p jsontext.Pointer) string {
	s := strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

// fail keeps the first error; nil is none.
func (r *reader) fail(err *abi.Error) {
	if r.err == nil {
		r.err = err
	}
}

// syntax keeps a decoding error: path and offset tell the client where the
// body is broken. The library's own words are not passed on: they quote it.
func (r *reader) syntax(err error) {
	s, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		r.fail(broken("", "it ends early", -1))
		return
	}
	what := "invalid syntax"
	switch text := s.Err.Error(); {
	case errors.Is(err, jsontext.ErrDuplicateName):
		what = "a member is there twice"
	case strings.Contains(text, "UTF-8"):
		what = "invalid UTF-8"
	case strings.Contains(text, "surrogate"):
		what = "half of a surrogate pair"
	}
	r.fail(broken(dotted(s.JSONPointer), what, s.ByteOffset))
}

// broken makes the error of a body that is no valid JSON at a byte.
func broken(param, what string, at int64) *abi.Error {
	e := refuse(abi.ReasonSyntax, param, what)
	e.Value = at
	return e
}

// want reads one token of the kind, or fails naming the field. null is its own
// kind: callers that accept it ask first with null.
func (r *reader) want(kind jsontext.Kind, what string) (jsontext.Token, bool) {
	if r.err != nil {
		return jsontext.Token{}, false
	}
	if r.dec.PeekKind() != kind {
		if _, err := r.dec.ReadValue(); err != nil { // so that path names the value itself
			r.syntax(err)
			return jsontext.Token{}, false
		}
		r.fail(invalid(r.path(), "want %s", what))
		return jsontext.Token{}, false
	}
	t, err := r.dec.ReadToken()
	if err != nil {
		r.syntax(err)
		return jsontext.Token{}, false
	}
	return t, true
}

// null consumes a null and says whether there was one.
func (r *reader) null() bool {
	if r.err != nil || r.dec.PeekKind() != 'n' {
		return false
	}
	r.want('n', "null")
	return true
}

func (r *reader) string() string {
	if r.err == nil && r.dec.PeekKind() == '"' {
		v, err := r.dec.ReadValue()
		if err != nil {
			r.syntax(err)
			return ""
		}
		return unquote(v)
	}
	r.want('"', "a string")
	return ""
}

// words are the strings that bodies are full of; reading one takes no memory.
var words = quoted("model", "max_tokens", "messages", "system", "stream", "stop_sequences", "temperature", "top_p", "top_k",
	"min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "min_tokens", "ignore_eos",
	"tools", "tool_choice", "thinking", "role", "content", "type", "text", "id", "name", "input", "description", "input_schema",
	"tool_use_id", "is_error", "signature", "metadata", "cache_control", "user", "assistant", "tool_use", "tool_result")

// quoted maps each word's usual JSON text to the word.
func quoted(list ...string) map[string]string {
	m := make(map[string]string, len(list))
	for _, word := range list {
		m[strconv.Quote(word)] = word
	}
	return m
}

// unquote returns an owned copy of a JSON string that the decoder has checked.
func unquote(v jsontext.Value) string {
	if word, ok := words[string(v)]; ok {
		return word
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	b, _ := jsontext.AppendUnquote(nil, v) // fails only on what the decoder refused
	return string(b)
}

// isTranslators is for a field that only translators have: of a client's body it is unknown, and skipped.
func (r *reader) isTranslators() bool {
	if !r.form.translated {
		r.skip()
	}
	return r.form.translated
}

func (r *reader) bool() bool {
	kind := jsontext.Kind('t')
	if r.dec.PeekKind() == 'f' {
		kind = 'f'
	}
	t, ok := r.want(kind, "a boolean")
	return ok && t.Bool()
}

func (r *reader) number() float64 {
	t, ok := r.want('0', "a number")
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(t.String(), 64)
	if err != nil {
		r.fail(invalid(r.path(), "%s is out of range", t.String()))
	}
	return f
}

// integerMax is the largest integer up to which a float64 tells every two apart.
const integerMax = 1 << 53

// integer accepts 5 and 5.0, as JSON does not tell them apart.
func (r *reader) integer() int {
	t, ok := r.want('0', "a number")
	if !ok {
		return 0
	}
	n, ok := whole(t.String())
	if !ok || n > integerMax { // a field refuses one under 0 itself
		r.fail(invalid(r.path(), "want an integer of at most 2^53"))
		return 0
	}
	return int(n)
}

// whole reads the text of an integer, and never rounds: one of 64 bits in plain digits, or one of at
// most 2^53 either side of zero, however it is written. Translators take the same.
func whole(text string) (n int64, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > integerMax {
		return 0, false
	}
	n = int64(f) // the integer part of a fraction has other digits
	return n, significant(text) == significant(strconv.FormatInt(n, 10))
}

// significant are a number's digits without zeros at either end.
func significant(text string) string {
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		text = text[:e]
	}
	return strings.Trim(strings.Replace(strings.TrimPrefix(text, "-"), ".", "", 1), "0")
}

// object calls field for every member, standing before its value; field must consume it.
func (r *reader) object(field func(name string)) {
	r.want('{', "an object")
	for r.err == nil && r.dec.PeekKind() != '}' {
		v, err := r.dec.ReadValue()
		if err != nil {
			r.syntax(err)
			return
		}
		field(unquote(v))
	}
	r.close()
}

// array calls item for every element; item must consume it.
func (r *reader) array(item func()) {
	r.want('[', "an array")
	for r.err == nil && r.dec.PeekKind() != ']' {
		item()
	}
	r.close()
}

// close consumes the end of the innermost object or array.
func (r *reader) close() {
	if r.err != nil {
		return
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.syntax(err)
	}
}

// skip consumes one value of any kind, checking its syntax.
func (r *reader) skip() {
	if r.err == nil {
		if err := r.dec.SkipValue(); err != nil {
			r.syntax(err)
		}
	}
}

// raw consumes one value and returns its text, compacted and owned.
func (r *reader) raw() []byte {
	if r.err != nil {
		return nil
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		r.syntax(err)
		return nil
	}
	c := v.Clone()
	_ = c.Compact() // fails only on what the decoder refused
	return c
}

// rawObject is raw for a value that must be an object.
func (r *reader) rawObject() []byte {
	if r.err == nil && r.dec.PeekKind() != '{' {
		r.want('{', "an object")
		return nil
	}
	return r.raw()
}

// Values is how many JSON values a text has at most, and at least about half as many. It counts
// the commas and brackets outside of strings: a hostile body costs one pass.
func Values(text []byte) int {
	values, _ := survey(text)
	return values
}

// survey counts the values of a text, as Values, and how deep they nest, without parsing it.
func survey(text []byte) (values, depth int) {
	values = 1
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = endOfString(text, i+1); i < 0 { // the parser says so
				return values, depth
			}
		case '{', '[':
			values++
			open++
			depth = max(depth, open)
		case ',':
			values++
		case '}', ']':
			open--
		}
	}
	return values, depth
}

// endOfString is where the quote stands that ends the string whose text begins at from, behind its quote; -1 where there is none.
func endOfString(text []byte, from int) int {
	for i := from; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := i
		for text[escapes-1] == '\\' {
			escapes--
		}
		if (i-escapes)%2 == 0 {
			return i
		}
	}
}
