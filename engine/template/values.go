package template

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// The values of a template are gonja values around Go strings, ints, bools
// and the types below. gonja's own maps sort their keys and its nil is both
// None and undefined; chat templates can tell both differences.

// object is a mapping that keeps the order of its source. It is a slice, so
// that gonja finds an empty one false.
type object []member

type member struct {
	key string
	val *exec.Value
}

// list is a sequence: a JSON array, a list of the template, a slice of one.
type list []*exec.Value

// tuple differs from a list in how it prints.
type tuple []*exec.Value

// none is Python's None, JSON's null. Undefined is gonja's nil.
type none bool

// float prints as Python prints it.
type float float64

// integer is a whole number that int cannot hold, in decimal.
type integer string

// namespace is the one mutable value of a template.
type namespace struct{ members object }

var (
	valueNone      = exec.AsValue(none(false))
	valueUndefined = exec.AsValue(nil)
	valueTrue      = exec.AsValue(true)
	valueFalse     = exec.AsValue(false)
	valueEmpty     = exec.AsValue("")
)

func boolean(b bool) *exec.Value {
	if b {
		return valueTrue
	}
	return valueFalse
}

func (o object) get(key string) (*exec.Value, bool) {
	for i := range o {
		if o[i].key == key {
			return o[i].val, true
		}
	}
	return nil, false
}

// set replaces or appends; Python keeps the first position of a repeated key.
func (o object) set(key string, val *exec.Value) object {
	for i := range o {
		if o[i].key == key {
			o[i].val = val
			return o
		}
	}
	return append(o, member{key, val})
}

// GetAttribute and GetItem let gonja's filters (map, selectattr, ...) look inside.
func (o object) GetAttribute(name string) (*exec.Value, bool) { return found(o.get(name)) }

// GetItem returns the member with a string key.
func (o object) GetItem(key any) (*exec.Value, bool) {
	name, _ := key.(string)
	return found(o.get(name))
}

func found(v *exec.Value, ok bool) (*exec.Value, bool) {
	if !ok {
		return valueUndefined, false
	}
	return v, true
}

// String prints as Python's repr of a dict.
func (o object) String() string { return repr(exec.AsValue(o)) }

// GetItem returns the element at an index, counted from the end when negative.
func (l list) GetItem(key any) (*exec.Value, bool) {
	i, ok := key.(int)
	if i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return valueUndefined, false
	}
	return l[i], true
}

// String prints as Python's repr of a list.
func (l list) String() string { return repr(exec.AsValue(l)) }

// GetItem returns the element at an index, as for a list.
func (t tuple) GetItem(key any) (*exec.Value, bool) { return list(t).GetItem(key) }

// String prints as Python's repr of a tuple.
func (t tuple) String() string { return repr(exec.AsValue(t)) }

func (none) String() string { return "None" }

func (i integer) String() string { return string(i) }

// String prints as Python's repr of a float: shortest digits that read back
// the same, exponents from 1e16 up and below 1e-4.
func (x float) String() string {
	f := float64(x)
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// repr is Python's repr, which lists and mappings use for their elements.
func repr(v *exec.Value) string {
	var b strings.Builder
	writeRepr(&b, v)
	return b.String()
}

// writeRepr panics with ErrLimit when the text gets too long: a value that
// holds itself many times over is small in memory only. Render recovers.
func writeRepr(b *strings.Builder, v *exec.Value) {
	if b.Len() > outputMax {
		panic(fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, outputMax))
	}
	switch x := v.Interface().(type) {
	case string:
		b.WriteString(quotePython(x))
	case object:
		b.WriteByte('{')
		for i, m := range x {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quotePython(m.key))
			b.WriteString(": ")
			writeRepr(b, m.val)
		}
		b.WriteByte('}')
	case list:
		b.WriteByte('[')
		writeReprs(b, x)
		b.WriteByte(']')
	case tuple:
		b.WriteByte('(')
		writeReprs(b, x)
		if len(x) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte(')')
	default:
		b.WriteString(v.String())
	}
}

func writeReprs(b *strings.Builder, items []*exec.Value) {
	for i, v := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		writeRepr(b, v)
	}
}

// quotePython is Python's repr of a string.
func quotePython(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		writePythonRune(&b, r, quote)
	}
	b.WriteRune(quote)
	return b.String()
}

func writePythonRune(b *strings.Builder, r, quote rune) {
	switch {
	case r == quote || r == '\\':
		b.WriteByte('\\')
		b.WriteRune(r)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r == ' ' || unicode.IsPrint(r):
		b.WriteRune(r)
	case r < 0x100:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 0x10000:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// jsonDepthMax bounds the nesting of tools and arguments.
const jsonDepthMax = 512

// fromJSON reads one JSON text the way Python's json.loads does: order kept,
// the last of repeated keys wins, whole numbers exact.
func fromJSON(raw []byte) (*exec.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := readJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func readJSON(d *jsontext.Decoder, depth int) (*exec.Value, error) {
	if depth > jsonDepthMax {
		return nil, fmt.Errorf("JSON nested deeper than %d", jsonDepthMax)
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '{':
		return readObject(d, depth)
	case '[':
		return readList(d, depth)
	case '"':
		return exec.AsValue(t.String()), nil
	case '0':
		return number(t.String()), nil
	case 't':
		return valueTrue, nil
	case 'f':
		return valueFalse, nil
	}
	return valueNone, nil
}

// objectSearchMax is up to how many members a repeated key is found by
// looking at each; above it a map is used.
const objectSearchMax = 32

func readObject(d *jsontext.Decoder, depth int) (*exec.Value, error) {
	o := object{}
	var at map[string]int
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := t.String()
		v, err := readJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		if len(o) <= objectSearchMax {
			o = o.set(key, v)
			continue
		}
		if at == nil {
			at = make(map[string]int)
			for i, m := range o {
				at[m.key] = i
			}
		}
		if i, ok := at[key]; ok {
			o[i].val = v
			continue
		}
		at[key] = len(o)
		o = append(o, member{key, v})
	}
	_, err := d.ReadToken()
	return exec.AsValue(o), err
}

func readList(d *jsontext.Decoder, depth int) (*exec.Value, error) {
	l := list{}
	for d.PeekKind() != ']' {
		v, err := readJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	_, err := d.ReadToken()
	return exec.AsValue(l), err
}

// number reads a JSON number as Python does: a float if it has a fraction or
// an exponent, else a whole number of any size.
func number(s string) *exec.Value {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives an infinity, as in Python
		return exec.AsValue(float(f))
	}
	if i, err := strconv.Atoi(s); err == nil {
		return exec.AsValue(i)
	}
	return exec.AsValue(integer(s))
}

// add is exact for whole numbers of any size.
func add(a, b *exec.Value, subtract bool) *exec.Value {
	if isFloat(a) || isFloat(b) {
		if subtract {
			return exec.AsValue(float(a.Float() - b.Float()))
		}
		return exec.AsValue(float(a.Float() + b.Float()))
	}
	x, y := bigInt(a), bigInt(b)
	if subtract {
		y.Neg(y)
	}
	return fromBig(x.Add(x, y))
}

func bigInt(v *exec.Value) *big.Int {
	if s, ok := v.Interface().(integer); ok {
		if n, ok := new(big.Int).SetString(string(s), 10); ok {
			return n
		}
	}
	if b, ok := v.Interface().(bool); ok && b {
		return big.NewInt(1)
	}
	return big.NewInt(int64(v.Integer()))
}

func fromBig(n *big.Int) *exec.Value {
	if n.IsInt64() {
		return exec.AsValue(int(n.Int64()))
	}
	return exec.AsValue(integer(n.String()))
}

func isFloat(v *exec.Value) bool { return v.IsFloat() }

func isInteger(v *exec.Value) bool {
	if _, ok := v.Interface().(integer); ok {
		return true
	}
	return v.IsInteger()
}

// isBool also holds for arithmetic, where Python counts True as 1; None is no bool.
func isBool(v *exec.Value) bool {
	_, ok := v.Interface().(bool)
	return ok
}

func isNumber(v *exec.Value) bool { return isInteger(v) || isFloat(v) || isBool(v) }

func isString(v *exec.Value) bool {
	_, ok := v.Interface().(string)
	return ok
}

func isNone(v *exec.Value) bool {
	_, ok := v.Interface().(none)
	return ok
}

func isMapping(v *exec.Value) bool {
	_, ok := v.Interface().(object)
	return ok
}

func isUndefined(v *exec.Value) bool { return v == nil || v.IsNil() }

// sequence returns the elements of what can be looped over: a list, the keys
// of a mapping, the characters of a string, or what a filter of gonja made.
func sequence(v *exec.Value) (list, bool) {
	switch x := v.Interface().(type) {
	case list:
		return x, true
	case tuple:
		return list(x), true
	case object:
		keys := make(list, len(x))
		for i, m := range x {
			keys[i] = exec.AsValue(m.key)
		}
		return keys, true
	case string:
		chars := make(list, 0, len(x))
		for _, r := range x {
			chars = append(chars, exec.AsValue(string(r)))
		}
		return chars, true
	}
	if v.IsNil() {
		return nil, true // undefined is empty when iterated
	}
	if !v.IsList() {
		return nil, false
	}
	var out list
	v.Iterate(func(_, _ int, item, _ *exec.Value) bool {
		out = append(out, item)
		return true
	}, func() {})
	return out, true
}

// comparisonMax bounds the values looked at by one comparison.
const comparisonMax = 1_000_000

// equal is Python's ==.
func equal(a, b *exec.Value) bool {
	budget := comparisonMax
	return equalWithin(a, b, &budget)
}

// equalWithin panics with ErrLimit when the budget is spent, as writeRepr does.
func equalWithin(a, b *exec.Value, budget *int) bool {
	if *budget--; *budget < 0 {
		panic(fmt.Errorf("%w: a comparison of more than %d values", ErrLimit, comparisonMax))
	}
	switch x := a.Interface().(type) {
	case string:
		y, ok := b.Interface().(string)
		return ok && x == y
	case none:
		return isNone(b)
	case object:
		y, ok := b.Interface().(object)
		return ok && equalObjects(x, y, budget)
	}
	if isUndefined(a) || isUndefined(b) {
		return isUndefined(a) && isUndefined(b)
	}
	if isNumber(a) || isNumber(b) {
		return isNumber(a) && isNumber(b) && compareNumbers(a, b) == 0
	}
	if a.IsList() && b.IsList() && !isMapping(b) {
		x, _ := sequence(a)
		y, _ := sequence(b)
		return equalLists(x, y, budget)
	}
	return a == b
}

func equalObjects(x, y object, budget *int) bool {
	if len(x) != len(y) {
		return false
	}
	for _, m := range x {
		v, ok := y.get(m.key)
		if !ok || !equalWithin(m.val, v, budget) {
			return false
		}
	}
	return true
}

func equalLists(x, y list, budget *int) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !equalWithin(x[i], y[i], budget) {
			return false
		}
	}
	return true
}

func compareNumbers(a, b *exec.Value) int {
	if isFloat(a) || isFloat(b) {
		x, y := numberFloat(a), numberFloat(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return bigInt(a).Cmp(bigInt(b))
}

func numberFloat(v *exec.Value) float64 {
	if isFloat(v) {
		return v.Float()
	}
	f, _ := new(big.Float).SetInt(bigInt(v)).Float64()
	return f
}

// contains is Python's `item in v`.
func contains(v, item *exec.Value) (bool, error) {
	switch x := v.Interface().(type) {
	case string:
		s, ok := item.Interface().(string)
		if !ok {
			return false, errors.New("'in <string>' requires string as left operand")
		}
		return strings.Contains(x, s), nil
	case object:
		s, ok := item.Interface().(string)
		_, has := x.get(s)
		return ok && has, nil
	case *namespace:
		return false, errors.New("a namespace is not iterable")
	}
	items, ok := sequence(v)
	if !ok {
		return false, fmt.Errorf("%s is not iterable", typeName(v))
	}
	budget := comparisonMax
	for _, e := range items {
		if equalWithin(e, item, &budget) {
			return true, nil
		}
	}
	return false, nil
}

// typeName names a value's type in error messages, in Python's words.
func typeName(v *exec.Value) string {
	switch {
	case isUndefined(v):
		return "undefined"
	case isNone(v):
		return "None"
	case isString(v):
		return "str"
	case isBool(v):
		return "bool"
	case isInteger(v):
		return "int"
	case isFloat(v):
		return "float"
	case isMapping(v):
		return "dict"
	case v.IsList():
		return "list"
	}
	return "object"
}
