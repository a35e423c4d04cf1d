package modelfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// Layout of a safetensors file: u64 length of the header (little endian), the header as
// JSON {name: {dtype, shape, data_offsets: [begin, end]}}, the data. Offsets count from
// the end of the header, the last dimension of a shape is contiguous.

// headerBytesMax is what the format's own reader allows.
const headerBytesMax = 100_000_000

// storedDimensionsMax is for the tensors of a file, of which some are left out later: a convolution over
// pictures and time has five dimensions. Those that are used have dimensionsMax.
const storedDimensionsMax = 8

// rawTensor is a tensor as a safetensors file stores it.
type rawTensor struct {
	name   string
	dtype  string
	shape  []int // outermost first
	data   []byte
	offset int64 // of data in its file
}

// dtypes are the storage types that are read, by their size in bytes.
var dtypes = map[string]int{"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "U8": 1}

type rawEntry struct {
	DType   string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// parseSafetensors reads the directory of a file.
func parseSafetensors(data []byte) (list []*rawTensor, body int, err error) {
	if len(data) < 8 {
		return nil, 0, &FormatError{What: fmt.Sprintf("a safetensors file of %d bytes has no header", len(data))}
	}
	n := binary.LittleEndian.Uint64(data)
	if n > uint64(len(data)-8) || n > headerBytesMax {
		what := fmt.Sprintf("the header needs %d bytes, the file has %d, and %d are allowed", n, len(data)-8, headerBytesMax)
		return nil, 0, &FormatError{What: what}
	}
	body = 8 + int(n)
	d := json.NewDecoder(bytes.NewReader(data[8:body]))
	at := func() int64 { return 8 + d.InputOffset() }
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, &FormatError{8, fmt.Sprintf("the header is no JSON object (%v)", err)}
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, 0, &FormatError{at(), err.Error()}
		}
		name := key.(string) // the decoder refuses any other key
		if name == "__metadata__" {
			err = d.Decode(&map[string]string{})
		} else if err = checkName(name, seen, len(list)); err == nil {
			var e rawEntry
			if err = d.Decode(&e); err == nil {
				var t *rawTensor
				t, err = e.tensor(name, data[body:])
				list = append(list, t)
			}
		}
		if err != nil {
			return nil, 0, &FormatError{at(), err.Error()}
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, 0, &FormatError{at(), err.Error()}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, 0, &FormatError{at(), "the header goes on after its object"}
	}
	for _, t := range list {
		t.offset += int64(body)
	}
	return list, body, checkOverlap(list)
}

func checkName(name string, seen map[string]bool, n int) error {
	switch {
	case name == "" || len(name) >= nameBytesMax:
		return fmt.Errorf("the name of a tensor has %d bytes, want 1 to %d", len(name), nameBytesMax-1)
	case !printable(name):
		return fmt.Errorf("the name of a tensor is %s, want printable characters", quoteShort(name))
	case seen[name]:
		return fmt.Errorf("tensor %q appears twice", name)
	case n >= tensorsMax:
		return fmt.Errorf("it has more than %d tensors", tensorsMax)
	}
	seen[name] = true
	return nil
}

// tensor checks an entry against the data that it points into.
func (e *rawEntry) tensor(name string, data []byte) (*rawTensor, error) {
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin > end || end > uint64(len(data)) {
		return nil, fmt.Errorf("tensor %s lies at %d to %d of %d bytes", name, begin, end, len(data))
	}
	if len(e.Shape) > storedDimensionsMax {
		return nil, fmt.Errorf("tensor %s has %d dimensions, want at most %d", name, len(e.Shape), storedDimensionsMax)
	}
	size, known := dtypes[e.DType]
	product := uint64(size)
	for _, n := range e.Shape {
		hi, lo := bits.Mul64(product, uint64(n))
		if n < 1 || hi != 0 {
			return nil, fmt.Errorf("tensor %s has the shape %v", name, e.Shape)
		}
		product = lo
	}
	if known && product != end-begin {
		return nil, fmt.Errorf("tensor %s (%s, shape %v) has %d bytes, want %d", name, e.DType, e.Shape, end-begin, product)
	}
	shape := e.Shape
	if len(shape) == 0 { // a scalar
		shape = []int{1}
	}
	return &rawTensor{name, e.DType, shape, data[begin:end:end], int64(begin)}, nil
}

func checkOverlap(list []*rawTensor) error {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b *rawTensor) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; a.offset+int64(len(a.data)) > b.offset {
			return &FormatError{b.offset, fmt.Sprintf("tensor %s overlaps tensor %s", b.name, a.name)}
		}
	}
	return nil
}
