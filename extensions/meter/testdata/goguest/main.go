// Command goguest is a guest made by the stock Go toolchain.
package main

import (
	"encoding/json"
	"sort"
	"strings"
	"unsafe"
)

var (
	in  = make([]byte, 1<<20)
	out = make([]byte, 0, 1<<21)
)

func main() {}

//go:wasmexport buf
func buf() uint32 { return uint32(uintptr(unsafe.Pointer(&in[0]))) }

//go:wasmexport empty
func empty() {}

// escape copies n bytes as the inside of a JSON string.
//
//go:wasmexport escape
func escape(n uint32) uint32 {
	o := out[:0]
	for _, c := range in[:n] {
		switch {
		case c == '"' || c == '\\':
			o = append(o, '\\', c)
		case c < 0x20:
			o = append(o, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			o = append(o, c)
		}
	}
	out = o
	return uint32(len(o))
}

//go:wasmexport hash
func hash(n uint32) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range in[:n] {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// roundtrip decodes and encodes a document, sorts its words and hashes all.
//
//go:wasmexport roundtrip
func roundtrip(n uint32) uint64 {
	var v any
	if err := json.Unmarshal(in[:n], &v); err != nil {
		return 0
	}
	b, err := json.Marshal(v)
	if err != nil {
		return 1
	}
	words := strings.FieldsFunc(string(b), func(r rune) bool { return r == ',' || r == ':' })
	sort.Strings(words)
	h := uint64(14695981039346656037)
	for _, w := range words {
		for i := range len(w) {
			h = (h ^ uint64(w[i])) * 1099511628211
		}
	}
	return h
}
