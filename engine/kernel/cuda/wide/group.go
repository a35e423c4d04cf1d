package wide

import (
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

const (
	// groupBytes is four stages of 128 rows and 256 outputs by 64 values, and the sums of 128 rows by 64.
	groupBytes = 4*(128+256)*64*2 + 128*68*4
	mapBytes   = 128
	mapsAtOnce = 512
)

// groupGrid is the blocks of a product by groups of warps.
func (b *Backend) groupGrid(l tileList, outs, each int) eager.Shape {
	return eager.Shape{X: min(b.shapes.GroupBlocks, l.count*up(outs, each)), Threads: 384, Shared: groupBytes}
}

// maps are the tensor maps that lie on the device, where they stay: there are as many as matrices, and some for inputs.
type maps struct {
	known map[tensorKey]cuda.Pointer
	room  *eager.Room
	at    cuda.Pointer
	left  int // of the room
}

// tensorKey is rows of 16-bit values.
type tensorKey struct {
	at         cuda.Pointer
	cols, rows int
	elem       cuda.Elem
}

// tensorMap is where the map of a tensor is whose boxes are 128 rows by 64 values.
func (b *Backend) tensorMap(at cuda.Pointer, cols, rows int, elem cuda.Elem) cuda.Pointer {
	key, m := tensorKey{at, cols, rows, elem}, &b.maps
	if p, ok := m.known[key]; ok {
		return p
	}
	if m.left == 0 {
		m.room = &eager.Room{}
		m.at, m.left = b.Need(m.room, mapBytes*mapsAtOnce), mapsAtOnce
	}
	t := b.TensorMap(cuda.Tensor{
		Elem: elem, At: at, Dims: []int{cols, rows}, Strides: []int64{2 * int64(cols)}, Box: []int{64, tileRows}, Swizzle: 128,
	})
	b.CopyBytes(m.at, t[:])
	if m.known == nil {
		m.known = map[tensorKey]cuda.Pointer{}
	}
	m.known[key] = m.at
	m.at, m.left = m.at+mapBytes, m.left-1
	return m.known[key]
}
