package eager

import (
	"errors"
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/archive"
)

// What follows is for packages that compute some operations faster on the same device: they add
// kernels of their own, and read and write this backend's memory.

// Extend loads a module whose kernels Queue then knows by name: its binary where the device takes it, else its text.
func (b *Backend) Extend(text string, binary []byte) error {
	var m cuda.Module
	err := error(&cuda.Error{Code: cuda.BadImage})
	if len(binary) > 0 {
		m, err = b.device.Load(binary)
	}
	if e, ok := errors.AsType[*cuda.Error](err); ok && e.Code == cuda.BadImage && !e.Sticky {
		m, err = b.device.Load([]byte(text))
	}
	if err != nil {
		return err
	}
	for _, name := range entries(text) {
		if b.kernels[name] != nil {
			return fmt.Errorf("two kernels are named %s", name)
		}
		if b.kernels[name], err = m.Function(name); err != nil {
			return err
		}
	}
	return nil
}

// Compute is the compute capability of the device.
func (b *Backend) Compute() int { return b.device.Compute() }

// Allow lets a kernel have so much dynamic shared memory; false where the device has less.
func (b *Backend) Allow(name string, bytes int) bool {
	return b.kernels[name].AllowShared(bytes) == nil
}

// Address is where a buffer begins, 0 without one. It must hold n values.
func (b *Backend) Address(x kernel.Buffer, n int) cuda.Pointer { return at(x, n) }

// Matrix is a loaded weight: Experts x Rows x Cols values of a kind.
type Matrix struct {
	At                  cuda.Pointer
	Kind                int
	Experts, Rows, Cols int
}

// Matrix is where a weight is.
func (b *Backend) Matrix(w kernel.Weight) Matrix {
	m := w.(*weight)
	return Matrix{m.at, m.kind, m.experts, m.rows, m.cols}
}

// TensorMap describes a tensor for bulk copies.
func (b *Backend) TensorMap(t cuda.Tensor) cuda.TensorMap {
	m, err := b.device.TensorMap(t)
	b.Must(err)
	return m
}

// Arranged is where a step and its cache are on the device.
type Arranged struct {
	Config              kernel.CacheConfig
	Pages               cuda.Pointer
	Tables              cuda.Pointer // page tables of the spans, one behind the other
	PageBytes, RowBytes int64
	SlotFloats          int64
	Brain               int // 1 where states are bfloat16
}

// Arrange brings a step to the device, unless it is there.
func (b *Backend) Arrange(kc kernel.Cache, step *kernel.Step) Arranged {
	c := kc.(*cache)
	l := b.arrange(step, c)
	return Arranged{c.cfg, c.pages, l.at(l.tables), b.PageBytes(c.cfg), rowBytes(c.cfg), slotFloats(c.cfg), brain(c.cfg)}
}

// States is where the states of a layer begin in the first slot; slots are SlotFloats words apart.
func (b *Backend) States(kc kernel.Cache, layer int, s kernel.DeltaShape) cuda.Pointer {
	return kc.(*cache).states(layer, s)
}

// Images are the modules that a package embeds as an archive, by their file. Each call unpacks them: they are the caller's.
func Images(ptx []byte) map[string]string {
	all, err := archive.Unpack(ptx)
	if err != nil {
		panic(err) // it is compiled in
	}
	return all
}
