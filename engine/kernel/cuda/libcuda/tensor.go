//go:build cuda && linux

package libcuda

import (
	"unsafe"

	"corenode/engine/kernel/cuda"
)

// elements and swizzles are the driver's numbers for what a tensor has.
var (
	elements = [...]uintptr{cuda.U8: 0, cuda.F16: 6, cuda.BF16: 9, cuda.F32: 7}
	swizzles = map[int]uintptr{0: 0, 32: 1, 64: 2, 128: 3}
)

// tensorArgs are the arrays that describe a tensor.
type tensorArgs struct {
	dims    [5]uint64
	strides [4]uint64
	box     [5]uint32
	steps   [5]uint32
}

// TensorMap lets the driver encode a tensor. The result has to lie at a multiple of 64 bytes
// while it is written.
func (d *device) TensorMap(t cuda.Tensor) (m cuda.TensorMap, err error) {
	rank := len(t.Dims)
	swizzle, known := swizzles[t.Swizzle]
	if rank < 1 || rank > 5 || len(t.Strides) != rank-1 || len(t.Box) != rank || !known || int(t.Elem) >= len(elements) {
		return m, refused("tensor map", "%d dimensions, %d strides, a box of %d, swizzle %d", rank, len(t.Strides), len(t.Box), t.Swizzle)
	}
	a, room := &d.scratch.tensor, &d.scratch.room
	*a = tensorArgs{}
	for i := range rank {
		a.dims[i], a.box[i], a.steps[i] = uint64(t.Dims[i]), uint32(t.Box[i]), 1
	}
	for i, s := range t.Strides {
		a.strides[i] = uint64(s)
	}
	skip := -int(uintptr(unsafe.Pointer(&room[0]))) & (tensorMapAlign - 1)
	err = d.locked("tensor map", cuTensorMapEncodeTiled, address(&room[skip]), elements[t.Elem], uintptr(rank), uintptr(t.At),
		address(&a.dims[0]), address(&a.strides[0]), address(&a.box[0]), address(&a.steps[0]),
		interleaveNone, swizzle, promote256, outOfBoundsIsZero)
	copy(m[:], room[skip:])
	return m, err
}
