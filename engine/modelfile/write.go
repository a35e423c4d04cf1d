package modelfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
)

// KV is one metadata entry. Value is a uint8 to int64, float32, float64, bool
// or string, a slice of one of these, or a Value, which is copied as it is.
type KV struct {
	Key   string
	Value any
}

// Write writes a version 3 file. Of each tensor Name, Type and Shape count, and what
// data gives for it, one after the other; nil is the tensor's Bytes. Offsets are made here.
func Write(w io.Writer, meta []KV, tensors []*Tensor, data func(*Tensor) ([]byte, error)) error {
	if data == nil {
		data = func(t *Tensor) ([]byte, error) { return t.Bytes(), nil }
	}
	var b bytes.Buffer
	b.WriteString(magic)
	put(&b, uint32(3), uint64(len(tensors)), uint64(len(meta)))
	for _, kv := range meta {
		putString(&b, kv.Key)
		if err := putValue(&b, kv.Value); err != nil {
			return fmt.Errorf("write metadata key %q: %w", kv.Key, err)
		}
	}
	offset := 0
	for _, t := range tensors {
		putString(&b, t.Name)
		put(&b, uint32(len(t.Shape)))
		for _, n := range t.Shape {
			put(&b, uint64(n))
		}
		put(&b, uint32(t.Type), uint64(offset))
		offset += padded(t.Size())
	}
	b.Write(make([]byte, padded(b.Len())-b.Len()))
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	for _, t := range tensors {
		stored, err := data(t)
		if err != nil {
			return fmt.Errorf("write tensor %s: %w", t.Name, err)
		}
		if _, err := w.Write(stored); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, padded(len(stored))-len(stored))); err != nil {
			return err
		}
	}
	return nil
}

func padded(n int) int { return (n + alignmentDefault - 1) / alignmentDefault * alignmentDefault }

// newValue is the metadata entry of a value that putValue knows.
func newValue(key string, value any) (Value, error) {
	var b bytes.Buffer
	putString(&b, key)
	if err := putValue(&b, value); err != nil {
		return Value{}, fmt.Errorf("metadata key %q: %w", key, err)
	}
	r := &reader{data: b.Bytes()}
	return parseValue(r, r.name("key")), nil
}

// put appends fixed-size values, little endian. A bytes.Buffer never fails and
// the callers pass fixed-size types only.
func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
}

func putString(b *bytes.Buffer, s string) {
	put(b, uint64(len(s)))
	b.WriteString(s)
}

// putValue writes the type number and the value.
func putValue(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case Value:
		put(b, uint32(v.Type))
		b.Write(v.Raw())
		return nil
	case string:
		put(b, uint32(String))
		putString(b, v)
		return nil
	case []string:
		put(b, uint32(Array), uint32(String), uint64(len(v)))
		for _, s := range v {
			putString(b, s)
		}
		return nil
	}
	value := reflect.ValueOf(v)
	if typ, ok := kinds[value.Kind()]; ok {
		put(b, uint32(typ), v)
		return nil
	}
	if value.Kind() == reflect.Slice {
		if typ, ok := kinds[value.Type().Elem().Kind()]; ok {
			put(b, uint32(Array), uint32(typ), uint64(value.Len()), v)
			return nil
		}
	}
	return fmt.Errorf("a %T cannot be written", v)
}

// kinds are the types that binary.Write writes as they are stored.
var kinds = map[reflect.Kind]ValueType{
	reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32, reflect.Uint64: Uint64,
	reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32, reflect.Int64: Int64,
	reflect.Float32: Float32, reflect.Float64: Float64, reflect.Bool: Bool,
}
