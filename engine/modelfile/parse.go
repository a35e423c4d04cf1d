package modelfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"corenode/engine/kernel"
)

const (
	magic            = "GGUF"
	alignmentDefault = 32
	alignmentMax     = 1 << 20
	dimensionsMax    = 4
	nameBytesMax     = 1 << 16 // of a key or tensor name
	keysMax          = 1 << 16 // hundreds are usual; bounds what a huge hostile file may cost
	tensorsMax       = 1 << 18 // a model with every expert apart has tens of thousands
	arrayDepthMax    = 4       // arrays in arrays
	keyBytesMin      = 8 + 4 + 1
	tensorBytesMin   = 8 + 4 + 8 + 4 + 8
)

// reader walks the header. Every take checks what is left first. What is wrong
// ends the walk by a panic with a *FormatError, which parse returns.
type reader struct {
	data []byte
	at   int
}

func (r *reader) left() uint64 { return uint64(len(r.data) - r.at) }

// failAt ends the walk.
func failAt(at int, format string, args ...any) {
	panic(&FormatError{Offset: int64(at), What: fmt.Sprintf(format, args...)})
}

// take returns the next n bytes, which alias the file.
func (r *reader) take(n uint64, what string) []byte {
	if n > r.left() {
		failAt(r.at, "%s needs %d bytes, the file has %d left", what, n, r.left())
	}
	b := r.data[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) u32(what string) uint32 { return binary.LittleEndian.Uint32(r.take(4, what)) }

func (r *reader) u64(what string) uint64 { return binary.LittleEndian.Uint64(r.take(8, what)) }

// str returns the bytes of a length-prefixed string.
func (r *reader) str(what string) []byte { return r.take(r.u64("length of "+what), what) }

// printable says whether a name can be shown as it is: errors, logs and tables do.
func printable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// name returns a copied, non-empty string of bounded length that is printable.
func (r *reader) name(what string) string {
	at := r.at
	b := r.str(what)
	switch {
	case len(b) == 0:
		failAt(at, "%s is empty", what)
	case len(b) >= nameBytesMax:
		failAt(at, "%s has %d bytes, want less than %d", what, len(b), nameBytesMax)
	case !printable(string(b)):
		failAt(at, "%s is %s, want printable characters", what, quoteShort(string(b)))
	}
	return string(b)
}

// parse reads everything but the tensor data itself.
func parse(name string, data []byte) (f *File, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *FormatError:
			f, err = nil, p
		default:
			panic(p)
		}
	}()
	r := &reader{data: data}
	tensors, keys := parseHeader(r)
	f = &File{name: name, keyAt: map[string]int{}, byName: map[string]*Tensor{}}
	f.parseKeys(r, keys)
	alignment, err := f.alignment()
	if err != nil {
		return nil, err
	}
	f.parseDirectory(r, tensors)
	f.placeTensors(data, r.at, alignment)
	return newFile(f), nil
}

func parseHeader(r *reader) (tensors, keys uint64) {
	if head := r.take(4, "magic number"); string(head) != magic {
		failAt(0, "it starts with %q, a GGUF file with %q", head, magic)
	}
	if version := r.u32("version"); version != 2 && version != 3 {
		if v := bits.ReverseBytes32(version); v == 2 || v == 3 {
			failAt(4, "the file is big-endian, only little-endian files can be read")
		}
		failAt(4, "GGUF version %d, want 2 or 3", version)
	}
	tensors = r.count("number of tensors", tensorBytesMin)
	keys = r.count("number of metadata keys", keyBytesMin)
	if tensors > tensorsMax || keys > keysMax {
		failAt(8, "%d tensors and %d metadata keys, want at most %d and %d", tensors, keys, tensorsMax, keysMax)
	}
	return tensors, keys
}

// count reads a number of things that take at least each bytes of the file.
func (r *reader) count(what string, each uint64) uint64 {
	at := r.at
	n := r.u64(what)
	if n > r.left()/each {
		failAt(at, "%s is %d, more than %d bytes can hold", what, n, r.left())
	}
	return n
}

func (f *File) parseKeys(r *reader, n uint64) {
	for i := range n {
		at := r.at
		key := r.name(fmt.Sprintf("metadata key %d", i))
		if _, dup := f.keyAt[key]; dup {
			failAt(at, "metadata key %q appears twice", key)
		}
		v := parseValue(r, key)
		f.keyAt[key] = len(f.keys)
		f.keys = append(f.keys, v)
	}
}

// alignment is general.alignment, a power of two.
func (f *File) alignment() (uint64, error) {
	if !f.Has("general.alignment") {
		return alignmentDefault, nil
	}
	n, err := f.Uint("general.alignment")
	if err != nil {
		return 0, err
	}
	if n == 0 || n > alignmentMax || n&(n-1) != 0 {
		return 0, fmt.Errorf("general.alignment is %d, want a power of two up to %d", n, alignmentMax)
	}
	return n, nil
}

// parseDirectory reads the tensor infos; Offset is left relative to the data
// section until placeTensors knows where that is.
func (f *File) parseDirectory(r *reader, n uint64) {
	for i := range n {
		at := r.at
		t := &Tensor{Name: r.name(fmt.Sprintf("name of tensor %d", i))}
		if _, dup := f.byName[t.Name]; dup {
			failAt(at, "tensor %q appears twice", t.Name)
		}
		t.parseInfo(r)
		f.byName[t.Name] = t
		f.tensors = append(f.tensors, t)
	}
}

func (t *Tensor) parseInfo(r *reader) {
	what := "tensor " + t.Name
	at := r.at
	dims := r.u32(what)
	if dims < 1 || dims > dimensionsMax {
		failAt(at, "%s has %d dimensions, want 1 to %d", what, dims, dimensionsMax)
	}
	t.parseShape(r, int(dims))
	at = r.at
	t.Type = kernel.Type(r.u32(what))
	name, block, _, ok := TypeInfo(t.Type)
	if !ok {
		failAt(at, "%s has the unknown type %d", what, uint32(t.Type))
	}
	if t.Shape[0]%block != 0 {
		failAt(at, "%s has rows of %d values, not a multiple of the %s block of %d", what, t.Shape[0], name, block)
	}
	at = r.at
	offset := r.u64(what)
	if offset > uint64(len(r.data)) {
		failAt(at, "%s has offset %d in a file of %d bytes", what, offset, len(r.data))
	}
	t.Offset = int64(offset)
}

// parseShape reads the dimensions. Their product must stay below what any type
// could store in the file (no type takes less than one bit per value).
func (t *Tensor) parseShape(r *reader, dims int) {
	limit := min(uint64(len(r.data))*8, math.MaxInt)
	product := uint64(1)
	t.Shape = make([]int, dims)
	for i := range t.Shape {
		at := r.at
		n := r.u64("tensor " + t.Name)
		hi, lo := bits.Mul64(product, n)
		if n == 0 || hi != 0 || lo > limit {
			failAt(at, "tensor %s has dimension %d of %d values, which cannot fit a file of %d bytes", t.Name, i, n, len(r.data))
		}
		product = lo
		t.Shape[i] = int(n)
	}
}

// placeTensors turns relative offsets into data, checking alignment, bounds
// and that no two tensors share a byte.
func (f *File) placeTensors(data []byte, directoryEnd int, alignment uint64) {
	body := (uint64(directoryEnd) + alignment - 1) &^ (alignment - 1)
	body = min(body, uint64(len(data))) // a vocabulary alone need not be padded; a tensor has no room there
	p := &part{mapping: mapping{data: data}, body: int(body)}
	for _, t := range f.tensors {
		p.place(t, alignment)
		p.stored = append(p.stored, t.Data)
	}
	f.parts = []*part{p}
	sorted := slices.SortedFunc(slices.Values(f.tensors), func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		if a.Offset+int64(len(a.Data)) > b.Offset {
			failAt(int(b.Offset), "tensor %s overlaps tensor %s", b.Name, a.Name)
		}
	}
}

func (p *part) place(t *Tensor, alignment uint64) {
	length := uint64(t.Size()) // at most 8 times 8 times the file size
	start := uint64(p.body) + uint64(t.Offset)
	if uint64(t.Offset)%alignment != 0 {
		failAt(int(start), "tensor %s has offset %d, not a multiple of the alignment %d", t.Name, t.Offset, alignment)
	}
	if size := uint64(len(p.data)); start > size || length > size-start {
		failAt(int(start), "tensor %s (%s, shape %v) needs %d bytes there, the file has %d bytes in all",
			t.Name, typeName(t.Type), t.Shape, length, size)
	}
	t.Offset = int64(start)
	t.Data = p.data[start : start+length : start+length]
}

// typeName is the name of a tensor type, known or not.
func typeName(t kernel.Type) string {
	if name, _, _, ok := TypeInfo(t); ok {
		return name
	}
	return fmt.Sprintf("type %d", t)
}

// quoteShort quotes a string for display, cut to textRunesMax.
func quoteShort(s string) string {
	n := 0
	for i := range s {
		if n == textRunesMax {
			return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:i], "\uFFFD"))
		}
		n++
	}
	return fmt.Sprintf("%q", s)
}
