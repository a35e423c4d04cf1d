// Package modelfile reads GGUF model files, versions 2 and 3: typed metadata,
// a directory of tensors and their data, all memory-mapped.
//
// A file is hostile until parsed. Every length, count, offset, alignment and
// type is checked against the size of the file before anything is allocated
// for it, so memory use is bounded by a small multiple of the bytes really
// present, and a broken file is a *FormatError that says where and what.
//
// Layout (little endian): "GGUF", u32 version, u64 tensors, u64 keys, the
// keys with their values, the tensor directory, padding to general.alignment,
// the data section. Offsets in the directory count from the data section.
//
// A File is immutable after Open and safe for concurrent use. Tensor data
// aliases the mapping: it is valid until Close, which the owner calls last.
// A mapped file that somebody truncates while it is open kills the process
// (SIGBUS): replace model files by rename, never in place.
package modelfile

import (
	"fmt"
	"sync"

	"corenode/engine/kernel"
)

// File is one open model file.
type File struct {
	name    string
	data    []byte       // the whole file
	release func() error // nil when the memory is not ours
	keys    []Value      // file order
	keyAt   map[string]int
	tensors []*Tensor // file order
	byName  map[string]*Tensor
	body    int // offset of the data section
	digest  func() string
}

// Tensor is one entry of the directory with its data.
type Tensor struct {
	Name string
	Type kernel.Type
	// Shape has the contiguous dimension first, as the file does ("ne"): a
	// matrix of Shape[1] outputs by Shape[0] inputs. One to four positive
	// dimensions whose product fits an int.
	Shape []int
	// Data is the tensor's bytes as stored; it aliases the file.
	Data []byte
	// Offset is where Data starts, counted from the start of the file.
	Offset int64
}

// FormatError says what is wrong with a model file and where.
type FormatError struct {
	Offset int64 // from the start of the file
	What   string
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("model file is broken at byte %d: %s", e.Offset, e.What)
}

// Open maps the file at path. Multi-file models (split.count above 1) and
// folders are refused.
func Open(path string) (*File, error) {
	data, release, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open model file: %w", err)
	}
	f, err := parse(path, data)
	if err != nil {
		if release != nil {
			_ = release() // the parse error is what the caller can act on
		}
		return nil, fmt.Errorf("open model file %s: %w", path, err)
	}
	f.release = release
	return f, nil
}

// OpenBytes reads a model file that is in memory, such as an embedded one. The
// file keeps using data, which must not change.
func OpenBytes(name string, data []byte) (*File, error) {
	f, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("open model file %s: %w", name, err)
	}
	return f, nil
}

// Close releases the mapping. Afterwards no method may be called and no Data
// used; strings and numbers got before stay valid. A second Close does nothing.
func (f *File) Close() error {
	release := f.release
	f.release = nil
	f.data = nil
	if release == nil {
		return nil
	}
	return release()
}

// Rest gives back the memory that reading a mapped file has taken: from now on
// little of it is read, such as single rows of embeddings. All data stays valid
// and comes back when touched.
func (f *File) Rest() {
	if f.release != nil {
		releasePages(f.data)
	}
}

// Name is the path or the name that the file was opened with.
func (f *File) Name() string { return f.name }

// Architecture is general.architecture, "" when the file has none.
func (f *File) Architecture() string {
	a, err := f.String("general.architecture")
	if err != nil {
		return ""
	}
	return a
}

// Tensor finds a tensor by its name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	t, ok := f.byName[name]
	return t, ok
}

// Tensors lists the tensors in file order. The caller must not change the slice.
func (f *File) Tensors() []*Tensor { return f.tensors }

// Elements is the number of values in the tensor.
func (t *Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Floats returns a dequantized copy of the tensor.
func (t *Tensor) Floats() ([]float32, error) {
	if !Readable(t.Type) { // before allocating for a type that cannot be read
		return nil, fmt.Errorf("tensor %s: %w", t.Name, unreadable(t.Type))
	}
	out := make([]float32, t.Elements())
	if err := Dequantize(out, t.Type, t.Data); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return out, nil
}

// newFile completes a parsed file.
func newFile(f *File) *File {
	f.digest = sync.OnceValue(func() string { return digest(f.data, f.body, f.tensors) })
	return f
}
