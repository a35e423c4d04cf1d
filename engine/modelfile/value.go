package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// ValueType is the type number of a metadata value.
type ValueType uint32

// The types of the format.
const (
	Uint8 ValueType = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array
	Uint64
	Int64
	Float64
)

// valueTypes has the name and the size of each type; 0 means variable.
var valueTypes = [...]struct {
	name string
	size uint64
}{
	Uint8: {"u8", 1}, Int8: {"i8", 1}, Uint16: {"u16", 2}, Int16: {"i16", 2}, Uint32: {"u32", 4}, Int32: {"i32", 4},
	Float32: {"f32", 4}, Bool: {"bool", 1}, String: {"string", 0}, Array: {"array", 0},
	Uint64: {"u64", 8}, Int64: {"i64", 8}, Float64: {"f64", 8},
}

// elementBytesMin is the least that an element of variable size takes.
var elementBytesMin = [...]uint64{String: 8, Array: 12, Float64: 0}

// String is the short name, such as "u32".
func (t ValueType) String() string {
	if int(t) < len(valueTypes) {
		return valueTypes[t].name
	}
	return fmt.Sprintf("type(%d)", uint32(t))
}

// Value is one metadata entry. Its bytes alias the file: Raw and Text must not
// be called after Close.
type Value struct {
	Key  string
	Type ValueType
	Elem ValueType // element type of an Array
	Len  int       // number of elements of an Array, else 1
	raw  []byte    // encoded value without its type number
}

// Raw is the value as encoded in the file, after its type number.
func (v Value) Raw() []byte { return v.raw }

// TypeName describes the type: "u32", "[]string".
func (v Value) TypeName() string {
	if v.Type == Array {
		return "[]" + v.Elem.String()
	}
	return v.Type.String()
}

// items is the encoded elements of an array.
func (v Value) items() []byte { return v.raw[12:] }

// parseValue reads the type and the value that follow a key.
func parseValue(r *reader, key string) Value {
	what := "value of metadata key " + quoteShort(key)
	at := r.at
	v := Value{Key: key, Type: ValueType(r.u32(what)), Len: 1}
	start := r.at
	skipValue(r, v.Type, what, at, 0)
	v.raw = r.data[start:r.at:r.at]
	if v.Type == Array {
		v.Elem = ValueType(binary.LittleEndian.Uint32(v.raw))
		v.Len = int(binary.LittleEndian.Uint64(v.raw[4:])) // bounded by the file size
	}
	return v
}

// skipValue walks over one value, checking all of it. typeAt is where its type
// number stands. It recurses into nested arrays at most arrayDepthMax deep.
func skipValue(r *reader, typ ValueType, what string, typeAt, depth int) {
	if int(typ) >= len(valueTypes) {
		failAt(typeAt, "%s has the unknown type %d", what, uint32(typ))
	}
	switch typ {
	case String:
		r.str(what)
	case Array:
		skipArray(r, what, depth+1)
	default:
		if b := r.take(valueTypes[typ].size, what); typ == Bool && b[0] > 1 {
			failAt(r.at-1, "%s is the byte %d, a bool is 0 or 1", what, b[0])
		}
	}
}

func skipArray(r *reader, what string, depth int) {
	at := r.at
	if depth > arrayDepthMax {
		failAt(at, "%s nests arrays more than %d deep", what, arrayDepthMax)
	}
	elem := ValueType(r.u32(what))
	if int(elem) >= len(valueTypes) {
		failAt(at, "%s has elements of the unknown type %d", what, uint32(elem))
	}
	each := valueTypes[elem].size
	n := r.count("length of the "+what, max(each, elementBytesMin[elem]))
	if each > 0 {
		r.take(n*each, what) // no overflow: n <= left/each
		return
	}
	for range n {
		skipValue(r, elem, what, at, depth)
	}
}

// Keys lists the metadata in file order. The caller must not change the slice.
func (f *File) Keys() []Value { return f.keys }

// Has reports whether the file has a metadata key.
func (f *File) Has(key string) bool {
	_, ok := f.keyAt[key]
	return ok
}

func (f *File) value(key string) (Value, error) {
	i, ok := f.keyAt[key]
	if !ok {
		return Value{}, fmt.Errorf("metadata key %q is absent", key)
	}
	return f.keys[i], nil
}

// wrongType is the error of an accessor that cannot give want.
func wrongType(v Value, want string) error {
	return fmt.Errorf("metadata key %q is %s, want %s", v.Key, v.TypeName(), want)
}

// typed returns a value of one type, of arrays with elements of one.
func (f *File) typed(key string, typ, elem ValueType, want string) (Value, error) {
	v, err := f.value(key)
	if err == nil && (v.Type != typ || v.Elem != elem) {
		err = wrongType(v, want)
	}
	return v, err
}

// Uint returns an integer of any integer type that is not negative.
func (f *File) Uint(key string) (uint64, error) {
	v, err := f.value(key)
	if err != nil {
		return 0, err
	}
	if v.Type == Uint64 {
		return binary.LittleEndian.Uint64(v.raw), nil
	}
	n, ok := integer(v.Type, v.raw)
	if !ok || v.Type == Bool {
		return 0, wrongType(v, "an integer")
	}
	if n < 0 {
		return 0, fmt.Errorf("metadata key %q is %d, want no negative number", key, n)
	}
	return uint64(n), nil
}

// Float returns a number of any numeric type.
func (f *File) Float(key string) (float64, error) {
	v, err := f.value(key)
	if err != nil {
		return 0, err
	}
	switch v.Type {
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), nil
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), nil
	case Uint64:
		return float64(binary.LittleEndian.Uint64(v.raw)), nil
	}
	n, ok := integer(v.Type, v.raw)
	if !ok || v.Type == Bool {
		return 0, wrongType(v, "a number")
	}
	return float64(n), nil
}

// Bool returns a bool.
func (f *File) Bool(key string) (bool, error) {
	v, err := f.typed(key, Bool, 0, "bool")
	return err == nil && v.raw[0] != 0, err
}

// String returns a copy of a string.
func (f *File) String(key string) (string, error) {
	v, err := f.typed(key, String, 0, "string")
	if err != nil {
		return "", err
	}
	return string(v.raw[8:]), nil
}

// listMax is the most elements of an array that Strings and Ints return. The
// largest real ones are vocabularies.
const listMax = 1 << 24

func checkList(v Value) error {
	if v.Len > listMax {
		return fmt.Errorf("metadata key %q has %d elements, want at most %d", v.Key, v.Len, listMax)
	}
	return nil
}

// Strings returns a copy of an array of strings. All of them share one
// allocation, so keeping one keeps all.
func (f *File) Strings(key string) ([]string, error) {
	v, err := f.typed(key, Array, String, "[]string")
	if err != nil {
		return nil, err
	}
	if err := checkList(v); err != nil {
		return nil, err
	}
	all := string(v.items())
	out := make([]string, v.Len)
	at := 0
	for i := range out {
		n := int(binary.LittleEndian.Uint64(v.items()[at:]))
		out[i] = all[at+8 : at+8+n]
		at += 8 + n
	}
	return out, nil
}

// Floats returns an array of float32.
func (f *File) Floats(key string) ([]float32, error) {
	v, err := f.typed(key, Array, Float32, "[]f32")
	if err != nil {
		return nil, err
	}
	out := make([]float32, v.Len)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(v.items()[4*i:]))
	}
	return out, nil
}

// Ints returns an array of integers, or of bools as 0 and 1; a scalar is a
// list of one, since some keys are written either way.
func (f *File) Ints(key string) ([]int64, error) {
	v, err := f.value(key)
	if err != nil {
		return nil, err
	}
	typ, data := v.Type, v.raw
	if typ == Array {
		typ, data = v.Elem, v.items()
	}
	if _, ok := integer(typ, make([]byte, 8)); !ok { // asks about the type only
		return nil, wrongType(v, "integers")
	}
	if err := checkList(v); err != nil {
		return nil, err
	}
	size := int(valueTypes[typ].size)
	out := make([]int64, v.Len)
	for i := range out {
		n, _ := integer(typ, data[i*size:])
		if typ == Uint64 && n < 0 {
			return nil, fmt.Errorf("metadata key %q has an element above %d", key, int64(math.MaxInt64))
		}
		out[i] = n
	}
	return out, nil
}

// integer decodes one integer or bool; a u64 wraps. ok is false for other types.
func integer(typ ValueType, b []byte) (n int64, ok bool) {
	switch typ {
	case Uint8, Bool:
		return int64(b[0]), true
	case Int8:
		return int64(int8(b[0])), true
	case Uint16:
		return int64(binary.LittleEndian.Uint16(b)), true
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(b))), true
	case Uint32:
		return int64(binary.LittleEndian.Uint32(b)), true
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case Uint64, Int64:
		return int64(binary.LittleEndian.Uint64(b)), true
	}
	return 0, false
}

const (
	textRunesMax = 60 // of a string in Text
	textItemsMax = 8  // of an array in Text
)

// Text shows the value in at most a few hundred characters, for people.
func (v Value) Text() string {
	if v.Type != Array {
		return scalarText(v.Type, v.raw)
	}
	if v.Elem == Array {
		return fmt.Sprintf("%d arrays", v.Len)
	}
	var b strings.Builder
	b.WriteByte('[')
	data := v.items()
	for i := range min(v.Len, textItemsMax) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(scalarText(v.Elem, data))
		data = data[scalarSize(v.Elem, data):]
	}
	if v.Len > textItemsMax {
		fmt.Fprintf(&b, ", ... %d in all", v.Len)
	}
	b.WriteByte(']')
	return b.String()
}

// scalarSize is the encoded size of the value at the start of b.
func scalarSize(typ ValueType, b []byte) int {
	if typ == String {
		return 8 + int(binary.LittleEndian.Uint64(b))
	}
	return int(valueTypes[typ].size)
}

func scalarText(typ ValueType, b []byte) string {
	switch typ {
	case String:
		return quoteShort(string(b[8:scalarSize(typ, b)]))
	case Float32:
		return fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case Float64:
		return fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case Bool:
		return fmt.Sprint(b[0] != 0)
	case Uint64:
		return fmt.Sprint(binary.LittleEndian.Uint64(b))
	}
	n, _ := integer(typ, b)
	return fmt.Sprint(n)
}
