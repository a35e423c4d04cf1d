// Package profile reads the CPU profiles that Go programs write (gzipped
// protocol buffers) as far as it takes to say which stacks the time went to.
package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// sizeMax bounds an unpacked profile.
const sizeMax = 256 << 20

// Sample is one stack and the CPU time seen in it.
type Sample struct {
	Stack []string // function names, the innermost first
	Nanos int64
}

// errCut is any field that does not fit what is left of its message.
var errCut = errors.New("profile: cut or malformed")

// Parse reads a CPU profile.
func Parse(packed []byte) ([]Sample, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(unzip, sizeMax+1))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if len(b) > sizeMax {
		return nil, fmt.Errorf("profile: more than %d bytes", sizeMax)
	}
	return parse(b)
}

// raw is a profile whose names are still numbers.
type raw struct {
	samples   []rawSample
	locations map[uint64][]uint64 // functions of a location, the innermost first
	functions map[uint64]uint64   // index of the name
	strings   []string
}

type rawSample struct{ locations, values []uint64 }

// The numbers are those of the format's published schema.
func parse(b []byte) ([]Sample, error) {
	p := raw{locations: map[uint64][]uint64{}, functions: map[uint64]uint64{}}
	err := fields(b, func(number int, n uint64, data []byte) error {
		switch number {
		case 2:
			return p.sample(data)
		case 4:
			return p.location(data)
		case 5:
			return p.function(data)
		case 6:
			p.strings = append(p.strings, string(data))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.resolve()
}

func (p *raw) sample(b []byte) error {
	var s rawSample
	err := fields(b, func(number int, n uint64, data []byte) (err error) {
		switch number {
		case 1:
			s.locations, err = numbers(s.locations, n, data)
		case 2:
			s.values, err = numbers(s.values, n, data)
		}
		return err
	})
	p.samples = append(p.samples, s)
	return err
}

func (p *raw) location(b []byte) error {
	var id uint64
	var functions []uint64
	err := fields(b, func(number int, n uint64, data []byte) error {
		switch number {
		case 1:
			id = n
		case 4: // a line: inlined callees come first
			return fields(data, func(number int, n uint64, _ []byte) error {
				if number == 1 {
					functions = append(functions, n)
				}
				return nil
			})
		}
		return nil
	})
	p.locations[id] = functions
	return err
}

func (p *raw) function(b []byte) error {
	var id, name uint64
	err := fields(b, func(number int, n uint64, _ []byte) error {
		switch number {
		case 1:
			id = n
		case 2:
			name = n
		}
		return nil
	})
	p.functions[id] = name
	return err
}

// resolve turns numbers into names. A CPU profile has two values per sample:
// how often it was seen and the nanoseconds that this stands for.
func (p *raw) resolve() ([]Sample, error) {
	var all []Sample
	for _, s := range p.samples {
		if len(s.values) != 2 {
			return nil, fmt.Errorf("profile: a sample of %d values, want the 2 of a CPU profile", len(s.values))
		}
		out := Sample{Nanos: int64(s.values[1])}
		for _, at := range s.locations {
			for _, f := range p.locations[at] {
				name, ok := p.functions[f]
				if !ok || name >= uint64(len(p.strings)) {
					return nil, fmt.Errorf("profile: function %d has no name", f)
				}
				out.Stack = append(out.Stack, p.strings[name])
			}
		}
		all = append(all, out)
	}
	return all, nil
}

// numbers appends a repeated number, which comes alone or packed with others.
func numbers(to []uint64, n uint64, packed []byte) ([]uint64, error) {
	if packed == nil {
		return append(to, n), nil
	}
	for len(packed) > 0 {
		v, size := binary.Uvarint(packed)
		if size <= 0 {
			return nil, errCut
		}
		to, packed = append(to, v), packed[size:]
	}
	return to, nil
}

// fields calls each for every field of a message: n is a number's value, data
// the bytes of a field that has a length, never nil for one.
func fields(b []byte, each func(number int, n uint64, data []byte) error) error {
	for len(b) > 0 {
		tag, size := binary.Uvarint(b)
		if size <= 0 {
			return errCut
		}
		b = b[size:]
		var n uint64
		var data []byte
		switch tag & 7 {
		case 0:
			if n, size = binary.Uvarint(b); size <= 0 {
				return errCut
			}
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			length, head := binary.Uvarint(b)
			if head <= 0 || length > uint64(len(b)-head) {
				return errCut
			}
			size = head + int(length)
			data = b[head:size:size]
		default:
			return errCut
		}
		if size > len(b) {
			return errCut
		}
		if err := each(int(tag>>3), n, data); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}
