// Package gguftest makes model files for tests: a GGUF writer, quantizers and
// a converter between tensor types. Only tests import it; its encoders favor
// being plain over speed and smallest error.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"corenode/engine/modelfile"
)

// KV is one metadata entry. Value is a uint8 to int64, float32, float64, bool
// or string, a slice of uint8, int32, uint32, int64, uint64, float32, bool or
// string, or a modelfile.Value, which is copied as it is.
type KV struct {
	Key   string
	Value any
}

const alignment = 32

// Write writes a version 3 file. Of each tensor Name, Type, Shape and Data
// count; offsets are made here.
func Write(w io.Writer, meta []KV, tensors []*modelfile.Tensor) error {
	var b bytes.Buffer
	b.WriteString("GGUF")
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
		offset += padded(len(t.Data))
	}
	b.Write(make([]byte, padded(b.Len())-b.Len()))
	for _, t := range tensors {
		b.Write(t.Data)
		b.Write(make([]byte, padded(len(t.Data))-len(t.Data)))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Bytes is Write into memory; it panics on a value that Write refuses, which
// only a mistake in a test can cause.
func Bytes(meta []KV, tensors []*modelfile.Tensor) []byte {
	var b bytes.Buffer
	if err := Write(&b, meta, tensors); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func padded(n int) int { return (n + alignment - 1) / alignment * alignment }

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
	case modelfile.Value:
		put(b, uint32(v.Type))
		b.Write(v.Raw())
		return nil
	case string:
		put(b, uint32(modelfile.String))
		putString(b, v)
		return nil
	case []string:
		put(b, uint32(modelfile.Array), uint32(modelfile.String), uint64(len(v)))
		for _, s := range v {
			putString(b, s)
		}
		return nil
	}
	if typ, ok := scalarType(v); ok {
		put(b, uint32(typ), v)
		return nil
	}
	typ, n, ok := sliceType(v)
	if !ok {
		return fmt.Errorf("a %T cannot be written", v)
	}
	put(b, uint32(modelfile.Array), uint32(typ), uint64(n), v)
	return nil
}

func scalarType(v any) (modelfile.ValueType, bool) {
	switch v.(type) {
	case uint8:
		return modelfile.Uint8, true
	case int8:
		return modelfile.Int8, true
	case uint16:
		return modelfile.Uint16, true
	case int16:
		return modelfile.Int16, true
	case uint32:
		return modelfile.Uint32, true
	case int32:
		return modelfile.Int32, true
	case float32:
		return modelfile.Float32, true
	case bool:
		return modelfile.Bool, true
	case uint64:
		return modelfile.Uint64, true
	case int64:
		return modelfile.Int64, true
	case float64:
		return modelfile.Float64, true
	}
	return 0, false
}

func sliceType(v any) (typ modelfile.ValueType, n int, ok bool) {
	switch v := v.(type) {
	case []uint8:
		return modelfile.Uint8, len(v), true
	case []int32:
		return modelfile.Int32, len(v), true
	case []uint32:
		return modelfile.Uint32, len(v), true
	case []int64:
		return modelfile.Int64, len(v), true
	case []uint64:
		return modelfile.Uint64, len(v), true
	case []float32:
		return modelfile.Float32, len(v), true
	case []bool:
		return modelfile.Bool, len(v), true
	}
	return 0, 0, false
}
