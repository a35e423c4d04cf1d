package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

const ropeFactorsName = "rope_freqs.weight"

// matrixTypes are the storage types a backend loads.
var matrixTypes = []kernel.Type{
	kernel.F32, kernel.F16, kernel.BF16, kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K,
	kernel.Q5_0, kernel.Q4_1, kernel.Q5_1, kernel.IQ4_NL, kernel.MXFP4, kernel.F8E4M3,
}

// tensors takes a file's tensors to a backend. Every tensor is checked before
// it is used: it is there, its type is known, its shape is the one the
// hyperparameters ask for. After an error the getters return nil and do nothing.
type tensors struct {
	f    *modelfile.File
	b    kernel.Backend
	used map[string]bool
	errs []error
	read func(part []byte, scratch *[]byte) []byte // kernel.Source.Read; nil where little is read
	dry  bool                                      // tensors are checked and not loaded; b is nil
}

func (t *tensors) has(name string) bool {
	_, ok := t.f.Tensor(name)
	return ok
}

// find returns a tensor of the wanted shape (contiguous dimension first), or nil: also where it was only to be checked.
func (t *tensors) find(name string, shape ...int) *modelfile.Tensor {
	if len(t.errs) > 0 {
		return nil
	}
	x, ok := t.f.Tensor(name)
	if !ok {
		t.errs = append(t.errs, fmt.Errorf("tensor %s is missing, want shape %v", name, shape))
		return nil
	}
	if err := checkTensor(x, shape...); err != nil {
		t.errs = append(t.errs, err)
		return nil
	}
	t.used[name] = true
	if t.dry {
		return nil
	}
	if b, ok := t.b.(kernel.EightBitBackend); !ok || !b.TakesEightBits() {
		x = x.Halves()
	}
	return x
}

// checkTensor reports a type or a shape other than the wanted one. Dimensions
// of 1 at the end do not matter: [n] and [n 1] are the same values.
func checkTensor(x *modelfile.Tensor, shape ...int) error {
	if !slices.Contains(matrixTypes, x.Type) {
		return fmt.Errorf("tensor %s: type %s is not one of %s", x.Name, typeNames(x.Type), typeNames(matrixTypes...))
	}
	if !slices.Equal(trimOnes(x.Shape), trimOnes(shape)) {
		return fmt.Errorf("tensor %s: shape %v, want %v", x.Name, x.Shape, shape)
	}
	return nil
}

func typeNames(types ...kernel.Type) string {
	names := make([]string, len(types))
	for i, typ := range types {
		if names[i], _, _, _ = modelfile.TypeInfo(typ); names[i] == "" {
			names[i] = strconv.Itoa(int(typ))
		}
	}
	return strings.Join(names, ", ")
}

func trimOnes(shape []int) []int {
	for len(shape) > 1 && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	return shape
}

// floats reads a small tensor as float32 values after checking its shape.
func floats(x *modelfile.Tensor, shape ...int) ([]float32, error) {
	if err := checkTensor(x, shape...); err != nil {
		return nil, err
	}
	return x.Floats()
}

// matrix loads a weight of rows outputs by cols inputs.
func (t *tensors) matrix(name string, rows, cols int) kernel.Weight {
	return t.load(t.find(name, cols, rows), 1, rows, cols)
}

// experts loads a stack of matrices.
func (t *tensors) experts(name string, experts, rows, cols int) kernel.Weight {
	return t.load(t.find(name, cols, rows, experts), experts, rows, cols)
}

func (t *tensors) load(x *modelfile.Tensor, experts, rows, cols int) kernel.Weight {
	if x == nil {
		return nil
	}
	src := kernel.Source{Name: x.Name, Type: x.Type, Experts: experts, Rows: rows, Cols: cols}
	if src.Pieces = x.Pieces(); src.Pieces == nil {
		src.Data, src.Copied = t.bytes(x), x.Copied()
	}
	return t.bring(src)
}

// tied loads a matrix that is also a table.
func (t *tensors) tied(name string, rows, cols int) kernel.Weight {
	x := t.find(name, cols, rows)
	if x == nil {
		return nil
	}
	return t.bring(kernel.Source{Name: x.Name, Type: x.Type, Experts: 1, Rows: rows, Cols: cols, Data: t.bytes(x)})
}

// table loads rows of embeddings that nothing is multiplied with.
func (t *tensors) table(name string, rows, cols int) kernel.Weight {
	x := t.find(name, cols, rows)
	if x == nil {
		return nil
	}
	return t.bring(kernel.Source{Name: x.Name, Type: x.Type, Experts: 1, Rows: rows, Cols: cols, Data: t.bytes(x), EmbedOnly: true})
}

// bytes are the data of a tensor whose rows a backend reads: where they are not made for that, they are
// not read here.
func (t *tensors) bytes(x *modelfile.Tensor) []byte {
	if x.Copied() && !t.ready(x) {
		return make([]byte, x.Size()) // of a load that has failed
	}
	return x.Bytes()
}

// ready waits for what a tensor is made from, and says whether it could be read.
func (t *tensors) ready(x *modelfile.Tensor) bool {
	t.f.Ready(x)
	err := t.f.Failed()
	if err != nil {
		t.errs = append(t.errs, err)
	}
	return err == nil
}

func (t *tensors) bring(src kernel.Source) kernel.Weight {
	if !src.Copied && !src.EmbedOnly {
		src.Read = t.read
	}
	w, err := t.b.Load(src)
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("tensor %s: %w", src.Name, err))
		return nil
	}
	t.f.ReleasePages() // so that no more is in memory than what is packed and one tensor
	return w
}

// split loads a fused tensor as several matrices, one for each run of rows.
func (t *tensors) split(name string, cols int, rows ...int) []kernel.Weight {
	total := 0
	for _, n := range rows {
		total += n
	}
	out := make([]kernel.Weight, len(rows))
	x := t.find(name, cols, total)
	if x == nil {
		return out
	}
	data, at := t.bytes(x), 0
	rowBytes := len(data) / total
	for i, n := range rows {
		out[i] = t.bring(kernel.Source{ // names of weights are unique
			Name: name + "[" + strconv.Itoa(i) + "]", Type: x.Type, Experts: 1, Rows: n, Cols: cols,
			Data: data[at*rowBytes : (at+n)*rowBytes], Copied: x.Copied(),
		})
		at += n
	}
	return out
}

// columns loads a matrix of rows outputs by 2·cols inputs as two of cols inputs
// each. The halves are copies of their parts of the file; where a block of the
// tensor's type lies in both, they are copied as float32.
func (t *tensors) columns(name string, rows, cols int) (left, right kernel.Weight) {
	x := t.find(name, 2*cols, rows)
	if x == nil || !t.ready(x) {
		return nil, nil
	}
	data, typ := x.Bytes(), x.Type
	if _, block, _, _ := modelfile.TypeInfo(typ); cols%block != 0 {
		values, err := x.Floats()
		if err == nil {
			typ = kernel.F32
			data, err = modelfile.Quantize(typ, values)
		}
		if err != nil {
			t.errs = append(t.errs, err)
			return nil, nil
		}
	}
	var out [2]kernel.Weight
	size := len(data) / (2 * rows)
	for i := range out {
		half := kernel.Source{Name: name + "[" + strconv.Itoa(i) + "]", Type: typ, Experts: 1, Rows: rows, Cols: cols,
			Data: make([]byte, 0, rows*size), Copied: true}
		for r := range rows {
			at := (2*r + i) * size
			half.Data = append(half.Data, data[at:at+size]...)
		}
		out[i] = t.bring(half)
	}
	return out[0], out[1]
}

// halves loads a stack whose experts are each one matrix of rows outputs above
// another.
func (t *tensors) halves(name string, experts, rows, cols int) (upper, lower kernel.Weight) {
	x := t.find(name, cols, 2*rows, experts)
	if x == nil {
		return nil, nil
	}
	var out [2]kernel.Weight
	data := t.bytes(x)
	size := len(data) / (2 * experts)
	for i := range out {
		src := kernel.Source{Name: name + "[" + strconv.Itoa(i) + "]", Type: x.Type, Experts: experts, Rows: rows, Cols: cols,
			Copied: x.Copied()}
		for e := range experts {
			at := (2*e + i) * size
			src.Pieces = append(src.Pieces, data[at:at+size])
		}
		out[i] = t.bring(src)
	}
	return out[0], out[1]
}

// vector loads values as float32, of the given shape.
func (t *tensors) vector(name string, shape ...int) kernel.Buffer { return t.scaled(name, 1, shape...) }

// scaled loads values times a factor.
func (t *tensors) scaled(name string, factor float32, shape ...int) kernel.Buffer {
	x := t.find(name, shape...)
	if x == nil || !t.ready(x) {
		return nil
	}
	values, err := x.Floats()
	if err != nil {
		t.errs = append(t.errs, err)
		return nil
	}
	for i := range values {
		values[i] *= factor
	}
	buffer := t.b.NewBuffer(len(values))
	t.b.Upload(buffer, 0, values)
	return buffer
}

// optional loads a vector that a file may leave out; then it is nil.
func (t *tensors) optional(name string, n int) kernel.Buffer {
	if !t.has(name) {
		return nil
	}
	return t.vector(name, n)
}

// err reports what went wrong, and otherwise a tensor that nothing used: a
// model with more parts than this code computes would give wrong answers.
func (t *tensors) err(c Config) error {
	if len(t.errs) > 0 {
		return errors.Join(t.errs...)
	}
	for _, x := range t.f.Tensors() {
		if !t.used[x.Name] && x.Name != ropeFactorsName && !c.beyond(x.Name) {
			return fmt.Errorf("tensor %s of shape %v is not part of architecture %s", x.Name, x.Shape, t.f.Architecture())
		}
	}
	return nil
}

// beyond tells the tensors of the prediction blocks after the last layer.
func (c Config) beyond(name string) bool {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, dot := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return ok && dot && err == nil && n >= c.Layers && n < c.Layers+c.Further
}
