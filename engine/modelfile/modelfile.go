// Package modelfile reads model files: GGUF, versions 2 and 3, and folders of
// safetensors as models are published. Both become a File: typed metadata, a
// directory of tensors and their data, all memory-mapped.
//
// A File speaks GGUF: its keys and the names, orders and values of its tensors are
// those of a GGUF file. What a folder stores in another order is put in order
// when Bytes asks for it (folder.go), and everything else is used where it lies.
//
// A file is hostile until parsed. Every length, count, offset, alignment and
// type is checked against the size of the file before anything is allocated
// for it, so memory use is bounded by a small multiple of the bytes really
// present, and a broken file is a *FormatError that says where and what.
//
// Layout of GGUF (little endian): "GGUF", u32 version, u64 tensors, u64 keys, the
// keys with their values, the tensor directory, padding to general.alignment,
// the data section. Offsets in the directory count from the data section.
//
// A File is immutable after Open and safe for concurrent use. Tensor data
// aliases the mapping: it is valid until Close, which the owner calls last.
// A mapped file that somebody truncates while it is open kills the process
// (SIGBUS), but for what Prefetch, Ready and Read read, which fails: replace
// model files by rename, never in place.
package modelfile

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"corenode/engine/kernel"
)

// File is one open model: a file, the parts of a split one, or a folder.
type File struct {
	name       string
	parts      []*part
	keys       []Value // file order
	keyAt      map[string]int
	tensors    []*Tensor // file order
	byName     map[string]*Tensor
	beside     map[string][]byte // texts of a folder by their names
	digest     func() string
	prefetcher *prefetcher // while a model is loaded
}

// part is one file of a model.
type part struct {
	mapping
	body   int      // offset of the data section
	stored [][]byte // the data of its tensors
}

// mapping is a file in memory.
type mapping struct {
	path    string       // of a mapped file
	info    os.FileInfo  // what is mapped; path may name another file by now
	data    []byte       // the whole file
	release func() error // nil when the memory is not ours
}

// Tensor is one entry of the directory with its data.
type Tensor struct {
	Name string
	Type kernel.Type
	// Shape has the contiguous dimension first, as the file does ("ne"): a
	// matrix of Shape[1] outputs by Shape[0] inputs. One to four positive
	// dimensions whose product fits an int.
	Shape []int
	// Data is the tensor's bytes where the file stores them as they are; it aliases the
	// file. Bytes has them in every case.
	Data []byte
	// Offset is where Data starts, counted from the start of its file; -1 without Data.
	Offset int64

	fill   func(dst []byte) // makes the bytes of a tensor without Data
	pieces [][]byte         // of equal size, which lie apart in the file
	from   [][]byte         // what fill reads of the files
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

// Open maps the file at path, all parts of a split one, or a folder with config.json
// and safetensors.
func Open(path string) (*File, error) {
	f, err := openPath(path)
	if err != nil {
		return nil, fmt.Errorf("open model file %s: %w", path, err)
	}
	return f, nil
}

func openPath(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openFolder(path)
	}
	m, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	f, err := parse(path, m.data)
	if err != nil {
		if m.release != nil {
			_ = m.release() // the parse error is what the caller can act on
		}
		return nil, err
	}
	f.parts[0].mapping = m
	if err := f.join(path); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// OpenBytes reads a GGUF file that is in memory, such as an embedded one. The
// file keeps using data, which must not change.
func OpenBytes(name string, data []byte) (*File, error) {
	f, err := parse(name, data)
	if err == nil && f.splits() > 1 {
		err = fmt.Errorf("it is one of %d parts of a split model, of which the others are missing", f.splits())
	}
	if err != nil {
		return nil, fmt.Errorf("open model file %s: %w", name, err)
	}
	return f, nil
}

// Close releases the mapping. Afterwards no method may be called and no Data
// used; strings and numbers got before stay valid. A second Close does nothing.
func (f *File) Close() error {
	var errs []error
	for _, p := range f.parts {
		if p.release != nil {
			errs = append(errs, p.release())
		}
	}
	f.parts = nil
	return errors.Join(errs...)
}

// Size is the bytes of its file, of all parts, or of the weights in its folder.
func (f *File) Size() (total int64) {
	for _, p := range f.parts {
		total += int64(len(p.data))
	}
	return total
}

// ReleasePages gives back the memory that reading a mapped file has taken: from now on
// little of it is read, such as single rows of embeddings. All data stays valid
// and comes back when touched.
func (f *File) ReleasePages() {
	for _, p := range f.parts {
		if p.release != nil {
			releasePages(p.data)
		}
	}
}

// Beside is a text file of a model's folder, such as tokenizer.json; nil without.
func (f *File) Beside(name string) []byte { return f.beside[name] }

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

// Size is the number of bytes that Bytes returns.
func (t *Tensor) Size() int {
	_, block, blockBytes, _ := TypeInfo(t.Type)
	return t.Elements() / block * blockBytes
}

// Bytes is the tensor's data: Data, or a copy made anew by each call where the file
// stores it in another form.
func (t *Tensor) Bytes() []byte {
	if t.fill == nil {
		return t.Data
	}
	out := make([]byte, t.Size())
	t.fill(out)
	return out
}

// Pieces are the parts of a tensor that lie apart in the file, without a copy: one for each of its
// last dimension, or of equally many rows, a multiple of kernel.PieceRows; nil where Bytes is what there is.
func (t *Tensor) Pieces() [][]byte { return t.pieces }

// stored is what the tensor is made from.
func (t *Tensor) stored() [][]byte {
	if t.from == nil {
		return [][]byte{t.Data}
	}
	return t.from
}

// Copied says that Bytes makes a copy.
func (t *Tensor) Copied() bool { return t.fill != nil }

// asStored says that Data or Pieces have all of it where the file stores it.
func (t *Tensor) asStored() bool { return t.fill == nil || t.pieces != nil }

// Floats returns a dequantized copy of the tensor.
func (t *Tensor) Floats() ([]float32, error) {
	if !Readable(t.Type) { // before allocating for a type that cannot be read
		return nil, fmt.Errorf("tensor %s: %w", t.Name, unreadable(t.Type))
	}
	out := make([]float32, t.Elements())
	if err := Dequantize(out, t.Type, t.Bytes()); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return out, nil
}

// newFile completes a parsed file.
func newFile(f *File) *File {
	f.digest = sync.OnceValue(func() string { return digest(f.parts) })
	return f
}
