package tensor

import "fmt"

// Map describes a tensor in device memory that copies cut boxes out of.
// Dimension 0 is contiguous.
type Map struct {
	At      uint64   // device address, a multiple of 16
	Size    int      // bytes of an element
	Dims    []uint64 // elements
	Strides []uint64 // bytes from one index of dimension i+1 to the next
	Box     []uint32 // elements of one copy
	Swizzle Swizzle
}

// Check returns the first rule of cuTensorMapEncodeTiled that the map breaks.
// One rule is stricter: the driver takes box rows that are narrower than the
// swizzle, but how those lie in shared memory was never seen on hardware.
func (m *Map) Check() error {
	n := len(m.Dims)
	if n < 1 || n > 5 || len(m.Box) != n || len(m.Strides) != n-1 {
		return fmt.Errorf("tensor map of %d dimensions, %d box sizes and %d strides, want 1 to 5, as many, and one less",
			n, len(m.Box), len(m.Strides))
	}
	if m.At%16 != 0 {
		return fmt.Errorf("tensor map at %#x, want a multiple of 16", m.At)
	}
	switch m.Size {
	case 1, 2, 4, 8:
	default:
		return fmt.Errorf("tensor map of elements of %d bytes, want 1, 2, 4 or 8", m.Size)
	}
	for i := range n {
		if m.Dims[i] == 0 || m.Dims[i] > 1<<32 {
			return fmt.Errorf("tensor map dimension %d has %d elements, want 1 to 2^32", i, m.Dims[i])
		}
		if m.Box[i] == 0 || m.Box[i] > 256 {
			return fmt.Errorf("tensor map box has %d elements in dimension %d, want 1 to 256", m.Box[i], i)
		}
		if i > 0 && (m.Strides[i-1]%16 != 0 || m.Strides[i-1] >= 1<<40) {
			return fmt.Errorf("tensor map stride %d of dimension %d, want a multiple of 16 below 2^40", m.Strides[i-1], i)
		}
	}
	row := int(m.Box[0]) * m.Size
	if row%16 != 0 {
		return fmt.Errorf("tensor map box row has %d bytes, want a multiple of 16", row)
	}
	switch m.Swizzle {
	case 0:
	case 32, 64, 128:
		if row != int(m.Swizzle) {
			return fmt.Errorf("tensor map box row has %d bytes, want its swizzle's %d", row, m.Swizzle)
		}
	default:
		return fmt.Errorf("tensor map swizzle %d, want 0, 32, 64 or 128", m.Swizzle)
	}
	return nil
}

// Bytes is what one copy moves in shared memory, outside parts included: a
// barrier counts all of them.
func (m *Map) Bytes() int {
	n := m.Size
	for _, b := range m.Box {
		n *= int(b)
	}
	return n
}

// Run is a part of a copy that is contiguous on both sides.
type Run struct {
	Shared uint32 // address
	Device uint64 // address; 0: outside the tensor, a load fills zeros and a store skips it
	Bytes  int
}

// Runs calls visit for each part of the box at index at, in order of the box:
// dimension 0 first. at may be negative or beyond the end, but along dimension 0
// it counts whole pieces of 16 bytes. No manual says so: of twelve boxes an H200
// took the one that does, and called the others an illegal instruction.
func (m *Map) Runs(shared uint32, at []int32, visit func(Run)) error {
	if len(at) != len(m.Dims) {
		return fmt.Errorf("tensor copy with %d coordinates of a map with %d dimensions", len(at), len(m.Dims))
	}
	if shared%128 != 0 {
		return fmt.Errorf("tensor copy at shared address %#x, want a multiple of 128", shared)
	}
	if b := int64(at[0]) * int64(m.Size); b%16 != 0 {
		return fmt.Errorf("tensor copy at byte %d of a row, want a multiple of 16", b)
	}
	row := m.Box[0] * uint32(m.Size)
	var index [5]uint32
	for line := uint32(0); ; line++ {
		m.row(shared+line*row, at, index[:len(at)], row, visit)
		i := 1
		for ; i < len(at); i++ {
			if index[i]++; index[i] < m.Box[i] {
				break
			}
			index[i] = 0
		}
		if i >= len(at) {
			return nil
		}
	}
}

// row visits one row of the box, cut where the swizzle and the tensor cut it.
func (m *Map) row(shared uint32, at []int32, index []uint32, bytes uint32, visit func(Run)) {
	inside, device := true, m.At
	for i := 1; i < len(at); i++ {
		j := int64(at[i]) + int64(index[i])
		inside = inside && uint64(j) < m.Dims[i] // a negative one is large
		device += uint64(j) * m.Strides[i-1]
	}
	size := int64(m.Size)
	first := max(0, -int64(at[0])*size)                             // bytes of the row before the tensor
	last := min(int64(bytes), (int64(m.Dims[0])-int64(at[0]))*size) // up to its end
	if !inside {
		first, last = int64(bytes), int64(bytes)
	}
	step := int64(bytes)
	if m.Swizzle != 0 {
		step = 16
	}
	for b := int64(0); b < int64(bytes); {
		end := min(b-b%step+step, int64(bytes))
		run := Run{Shared: m.Swizzle.Address(shared + uint32(b))}
		switch {
		case b < first:
			end = min(end, first)
		case b < last:
			end = min(end, last)
			run.Device = device + uint64(int64(at[0])*size+b)
		}
		run.Bytes = int(end - b)
		visit(run)
		b = end
	}
}
