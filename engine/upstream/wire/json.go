package wire

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// object walks the JSON text of one frame. The first error sticks.
type object struct {
	dec    jsontext.Decoder
	source bytes.Buffer
	err    error
}

// open reads data, which must not change until the walk is over.
func (o *object) open(data []byte) {
	o.source = *bytes.NewBuffer(data)
	o.dec.Reset(&o.source, jsontext.AllowDuplicateNames(true))
	o.err = nil
}

// members calls do with the name of each member of the object that comes next; do reads
// the value. What is no object is skipped.
func (o *object) members(do func(name string)) {
	if o.err != nil {
		return
	}
	if o.dec.PeekKind() != '{' {
		o.skip()
		return
	}
	o.token()
	for o.err == nil && o.dec.PeekKind() != '}' {
		if t := o.token(); o.err == nil {
			do(t.String())
		}
	}
	o.token()
}

// elements calls do before each element of the array that comes next; do reads it.
func (o *object) elements(do func()) {
	if o.err != nil {
		return
	}
	if o.dec.PeekKind() != '[' {
		o.skip()
		return
	}
	o.token()
	for o.err == nil && o.dec.PeekKind() != ']' {
		do()
	}
	o.token()
}

func (o *object) token() (t jsontext.Token) {
	if o.err == nil {
		t, o.err = o.dec.ReadToken()
	}
	return t
}

func (o *object) skip() {
	if o.err == nil {
		o.err = o.dec.SkipValue()
	}
}

// string reads a string; another value is skipped, and empty.
func (o *object) string() string {
	if o.err != nil {
		return ""
	}
	if o.dec.PeekKind() != '"' {
		o.skip()
		return ""
	}
	t := o.token()
	if o.err != nil {
		return ""
	}
	return t.String()
}

// intMax bounds an index or a count of tokens: what is larger is a lie, and sums of lies overflow.
const intMax = 1 << 32

// int reads an integer from 0 to intMax; another value is skipped: 0, and not ok.
func (o *object) int() (n int64, ok bool) {
	if o.err != nil {
		return 0, false
	}
	if o.dec.PeekKind() != '0' {
		o.skip()
		return 0, false
	}
	t := o.token()
	if o.err != nil {
		return 0, false
	}
	if n, err := strconv.ParseInt(t.String(), 10, 64); err == nil && n >= 0 && n <= intMax {
		return n, true
	}
	return 0, false
}

// raw reads a value as its text.
func (o *object) raw() string {
	if o.err != nil {
		return ""
	}
	var v jsontext.Value
	v, o.err = o.dec.ReadValue()
	return string(v)
}
