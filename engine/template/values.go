package template

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// value is a value of a template: a Go string, int or bool, or one of the types
// below. Undefined is a value of its own; a nil value is none at all, such as
// an argument that was not given.
type value = any

// undefined is what a name without a variable gives.
type undefined struct{}

// none is Python's None, JSON's null.
type none struct{}

// list is a sequence: a JSON array, a list of the template, a slice of one.
type list []value

// tuple differs from a list in how it prints.
type tuple []value

// group is what groupby gives: a tuple whose two elements have names.
type group struct {
	grouper value
	items   list
}

// float prints as Python prints it.
type float float64

// integer is a whole number that int cannot hold, in decimal.
type integer string

// namespace is the one mutable value of a template.
type namespace struct{ members gathering }

// at returns the element at an index, counted from the end when negative.
func (l list) at(key value) value {
	i, ok := key.(int)
	if i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return undefined{}
	}
	return l[i]
}

func (g group) get(name string) value {
	switch name {
	case "grouper":
		return g.grouper
	case "list":
		return g.items
	}
	return nil
}

// text is Python's str(): undefined is empty.
func text(v value) string {
	switch x := v.(type) {
	case string:
		return x
	case undefined:
		return ""
	}
	return repr(v)
}

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

// depthMax bounds the nesting of values that are printed or compared, as Python does too. A loop can make one that
// is nested deeper with each round, and a stack that overflows ends the process.
const depthMax = 1000

// checkDepth panics with ErrLimit so deep within a value, as all that follow values do.
func checkDepth(depth int) {
	if depth > depthMax {
		panic(fmt.Errorf("%w: a value nested deeper than %d", ErrLimit, depthMax))
	}
}

// repr is Python's repr, which lists and mappings use for their elements.
func repr(v value) string {
	var b strings.Builder
	writeRepr(&b, v, 0)
	return b.String()
}

// writeRepr panics with ErrLimit when the text gets too long: a value that
// holds itself many times over is small in memory only. Render recovers.
func writeRepr(b *strings.Builder, v value, depth int) {
	if b.Len() > outputMax {
		panic(errLongString)
	}
	checkDepth(depth)
	switch x := v.(type) {
	case string:
		b.WriteString(quotePython(x))
	case int:
		b.WriteString(strconv.Itoa(x))
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[x])
	case none:
		b.WriteString("None")
	case undefined:
		b.WriteString("Undefined")
	case float:
		b.WriteString(x.String())
	case integer:
		b.WriteString(string(x))
	case object:
		writeReprOfObject(b, x, depth)
	case list:
		b.WriteByte('[')
		writeReprs(b, x, depth)
		b.WriteByte(']')
	case tuple:
		b.WriteByte('(')
		writeReprs(b, list(x), depth)
		if len(x) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte(')')
	case group:
		writeRepr(b, tuple{x.grouper, x.items}, depth)
	default:
		b.WriteString("<" + typeName(v) + ">")
	}
}

func writeReprOfObject(b *strings.Builder, o object, depth int) {
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quotePython(m.key))
		b.WriteString(": ")
		writeRepr(b, m.val, depth+1)
	}
	b.WriteByte('}')
}

func writeReprs(b *strings.Builder, items []value, depth int) {
	for i, v := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		writeRepr(b, v, depth+1)
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
func fromJSON(raw []byte) (value, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := readJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func readJSON(d *jsontext.Decoder, depth int) (value, error) {
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
		return t.String(), nil
	case '0':
		return number(t.String()), nil
	case 't':
		return true, nil
	case 'f':
		return false, nil
	}
	return none{}, nil
}

func readObject(d *jsontext.Decoder, depth int) (value, error) {
	o := gathering{object: object{}}
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
		o.set(key, v)
	}
	_, err := d.ReadToken()
	return o.object, err
}

func readList(d *jsontext.Decoder, depth int) (value, error) {
	l := list{}
	for d.PeekKind() != ']' {
		v, err := readJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	_, err := d.ReadToken()
	return l, err
}

// number reads a JSON number as Python does: a float if it has a fraction or
// an exponent, else a whole number of any size.
func number(s string) value {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives an infinity, as in Python
		return float(f)
	}
	if i, err := strconv.Atoi(s); err == nil {
		return i
	}
	return integer(s)
}

// add is exact for whole numbers of any size.
func add(a, b value, subtract bool) value {
	if isFloat(a) || isFloat(b) {
		if subtract {
			return float(floatOf(a) - floatOf(b))
		}
		return float(floatOf(a) + floatOf(b))
	}
	x, y := bigOf(a), bigOf(b)
	if subtract {
		y.Neg(y)
	}
	return fromBig(x.Add(x, y))
}

func fromBig(n *big.Int) value {
	if n.IsInt64() {
		return int(n.Int64())
	}
	return integer(n.String())
}

// bigOf is a whole number; a float is cut, what is no number is 0.
func bigOf(v value) *big.Int {
	switch x := v.(type) {
	case integer:
		if n, ok := new(big.Int).SetString(string(x), 10); ok {
			return n
		}
	case float:
		if n, _ := big.NewFloat(float64(x)).Int(nil); n != nil && !math.IsNaN(float64(x)) {
			return n
		}
	case int:
		return big.NewInt(int64(x))
	case bool:
		if x {
			return big.NewInt(1)
		}
	}
	return new(big.Int)
}

// integerOf is a whole number as an int, at most as large as one can be.
func integerOf(v value) int {
	if x, ok := v.(int); ok {
		return x
	}
	n := bigOf(v)
	switch {
	case n.IsInt64():
		return int(n.Int64())
	case n.Sign() < 0:
		return math.MinInt
	}
	return math.MaxInt
}

// floatOf is a number as a float; what is no number is 0.
func floatOf(v value) float64 {
	if x, ok := v.(float); ok {
		return float64(x)
	}
	f, _ := new(big.Float).SetInt(bigOf(v)).Float64()
	return f
}

// is reports whether a value has a type.
func is[T any](v value) bool {
	_, ok := v.(T)
	return ok
}

func isFloat(v value) bool     { return is[float](v) }
func isInteger(v value) bool   { return is[int](v) || is[integer](v) }
func isNumber(v value) bool    { return isInteger(v) || isFloat(v) || isBool(v) }
func isString(v value) bool    { return is[string](v) }
func isNone(v value) bool      { return is[none](v) }
func isMapping(v value) bool   { return is[object](v) }
func isUndefined(v value) bool { return is[undefined](v) }
func isList(v value) bool      { return is[list](v) || is[tuple](v) || is[group](v) }

// isBool also holds for arithmetic, where Python counts True as 1; None is no bool.
func isBool(v value) bool { return is[bool](v) }

// isTrue is Python's truth.
func isTrue(v value) bool {
	switch x := v.(type) {
	case bool:
		return x
	case string:
		return x != ""
	case int:
		return x != 0
	case float:
		return x != 0
	case object:
		return len(x) > 0
	case list:
		return len(x) > 0
	case tuple:
		return len(x) > 0
	case undefined, none:
		return false
	}
	return true // an integer of that type is never zero
}

// elements returns what a list has; of other values it is not known.
func elements(v value) (list, bool) {
	switch x := v.(type) {
	case list:
		return x, true
	case tuple:
		return list(x), true
	case group:
		return list{x.grouper, x.items}, true
	}
	return nil, false
}

// sequence returns the elements of what can be looped over: a list, the keys
// of a mapping, the characters of a string, nothing of undefined.
func sequence(v value) (list, bool) {
	switch x := v.(type) {
	case object:
		keys := make(list, len(x))
		for i, m := range x {
			keys[i] = m.key
		}
		return keys, true
	case string:
		n := utf8.RuneCountInString(x)
		checkElements(n)
		chars := make(list, 0, n)
		for _, r := range x {
			chars = append(chars, string(r))
		}
		return chars, true
	case undefined:
		return nil, true
	}
	return elements(v)
}

// comparisonMax bounds the values looked at by one comparison.
const comparisonMax = 1_000_000

// equal is Python's ==.
func equal(r *run, a, b value) bool {
	budget := comparisonMax
	same := equalWithin(a, b, &budget, 0)
	r.compared(budget)
	return same
}

// compared counts what was looked at by a comparison that left so much of its budget.
func (r *run) compared(left int) { r.work((comparisonMax - left) / membersPerStep) }

// spend takes from the budget of a comparison. It panics with ErrLimit when that is spent, as writeRepr does.
func spend(budget *int, values int) {
	if *budget -= values; *budget < 0 {
		panic(fmt.Errorf("%w: a comparison of more than %d values", ErrLimit, comparisonMax))
	}
}

// equalWithin is equal with a budget.
func equalWithin(a, b value, budget *int, depth int) bool {
	spend(budget, 1)
	checkDepth(depth)
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false
		}
		spend(budget, len(x)/bytesPerStep)
		return x == y
	}
	if x, ok := a.(object); ok {
		y, ok := b.(object)
		return ok && equalObjects(x, y, budget, depth)
	}
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b) == 0
	}
	x, ok := elements(a)
	y, alsoList := elements(b)
	if ok || alsoList {
		return ok && alsoList && equalLists(x, y, budget, depth)
	}
	return !is[callable](a) && a == b // of what is left only functions cannot be compared
}

func equalObjects(x, y object, budget *int, depth int) bool {
	if len(x) != len(y) {
		return false
	}
	at := gathering{object: y}
	if len(y) > objectSearchMax {
		spend(budget, len(y))
		at.at = y.positions()
	}
	for _, m := range x {
		v, ok := at.get(m.key)
		if !ok || !equalWithin(m.val, v, budget, depth+1) {
			return false
		}
	}
	return true
}

func equalLists(x, y list, budget *int, depth int) bool {
	return slices.EqualFunc(x, y, func(a, b value) bool { return equalWithin(a, b, budget, depth+1) })
}

func compareNumbers(a, b value) int {
	if x, ok := a.(int); ok {
		if y, ok := b.(int); ok {
			return cmp.Compare(x, y)
		}
	}
	if isFloat(a) || isFloat(b) {
		x, y := floatOf(a), floatOf(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return bigOf(a).Cmp(bigOf(b))
}

// contains is Python's `item in v`.
func contains(r *run, v, item value) bool {
	switch x := v.(type) {
	case string:
		s, ok := item.(string)
		if !ok {
			panic(errors.New("'in <string>' requires string as left operand"))
		}
		return strings.Contains(x, s)
	case object:
		s, ok := item.(string)
		_, has := x.get(s)
		return ok && has
	case *namespace:
		panic(errors.New("a namespace is not iterable"))
	}
	budget := comparisonMax
	has := slices.ContainsFunc(each(v), func(e value) bool { return equalWithin(e, item, &budget, 0) })
	r.compared(budget)
	return has
}

// typeName names a value's type in error messages, in Python's words.
func typeName(v value) string {
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
	case isList(v):
		return "list"
	}
	return "object"
}
