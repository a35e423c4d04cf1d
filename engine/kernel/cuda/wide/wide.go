// Package wide computes steps of many rows on the matrix units of a GPU: products with matrices, experts,
// attention and DeltaNet, 64 or 128 rows at a time. Everything else, and what it has no kernel for, is
// package eager's, of which its Backend is one.
//
// Activations stay float32 in memory. What a matrix unit multiplies is float16 with a factor for each row,
// bfloat16 where the matrix is, or float32 with a fraction of 10 bits in DeltaNet; it is summed in float32.
// Sums of a row depend on the shape and on whether a step, or a span of it, has rowsMin rows or fewer: bits do
// not depend on what else is in a step of one such class.
package wide

import (
	_ "embed"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/tune"
)

// rowsMin is how many rows a step, or a span in attention and DeltaNet, has to have to be computed here.
const rowsMin = 32

//go:embed kernels/ptx.tar.zst
var ptx []byte

// groupImage is group.ptx as machine code of compute capability 9.0.
//
//go:embed kernels/group.cubin
var groupImage []byte

// groupFile holds what runs on compute capability 9.0 only.
const groupFile = "group.ptx"

// Backend runs on one device and owns it. One goroutine uses it.
type Backend struct {
	*eager.Backend
	able map[string]bool // kernels that the device has the shared memory for

	groups bool // the device multiplies with groups of warps
	shapes tune.Shapes

	input         [2]input // of a product: float16, bfloat16
	maps          maps
	experts       eager.Room
	left          eager.Room // what chunks leave for the scan
	parts, chunks list
}

var (
	_ kernel.Backend = (*Backend)(nil)
	_ kernel.Drawer  = (*Backend)(nil)
)

// New takes a device over; it is closed when this fails, too.
func New(d cuda.Driver, o eager.Options) (*Backend, error) {
	b, err := eager.New(d, o)
	if err != nil {
		return nil, err
	}
	w := &Backend{Backend: b, able: map[string]bool{}, shapes: tune.For(d.Name())}
	if err := w.prepare(images()); err != nil {
		b.Close()
		return nil, err
	}
	return w, nil
}

// images are the modules, by their file.
func images() map[string]string { return eager.Images(ptx) }

func (b *Backend) prepare(images map[string]string) error {
	b.groups = b.Compute() == 90
	for file, text := range images {
		var binary []byte
		if file == groupFile {
			if !b.groups {
				continue
			}
			binary = groupImage
		}
		if err := b.Extend(text, binary); err != nil {
			return err
		}
	}
	for name, bytes := range shared {
		b.able[name] = b.Allow(name, bytes)
	}
	b.groups = b.groups && b.Allow("productGroupF16", groupBytes) && b.Allow("productGroupBF16", groupBytes) &&
		b.Allow("gatedGroupF16", groupBytes) && b.Allow("gatedGroupBF16", groupBytes)
	return nil
}

// Shapes is how kernels are launched.
func (b *Backend) Shapes() tune.Shapes { return b.shapes }

// Reshape launches them in another way from now on; programs that exist keep theirs for steps that decode.
func (b *Backend) Reshape(s tune.Shapes) { b.shapes = s }

// Name implements kernel.Backend.
func (b *Backend) Name() string { return "cuda/wide " + b.Backend.Name() }

// shared is the dynamic shared memory of kernels.
var shared = map[string]int{
	"productF16": productBytes, "productBF16": productBytes, "productQ8": productBytes, "productQ4K": productBytes,
	"productE4M3": productBytes, "gatedE4M3": productBytes,
	"gatedF16": productBytes, "gatedBF16": productBytes, "gatedQ8": productBytes, "gatedQ4K": productBytes,
	"attendMany64": 40 << 10, "attendMany128": 80 << 10, "attendMany256": 96 << 10,
	"prepare64": prepareBytes(64), "prepare128": prepareBytes(128), "scan64": scanBytes(64), "scan128": scanBytes(128),
}

// list is numbers that the device has.
type list struct {
	room       eager.Room
	at         cuda.Pointer
	have, next []int32
}

// bring makes next what the device has.
func (b *Backend) bring(l *list) cuda.Pointer {
	if !slices.Equal(l.have, l.next) {
		l.at = b.Need(&l.room, 4*int64(len(l.next)))
		b.CopyIn(l.at, l.next)
		l.have = append(l.have[:0], l.next...)
	}
	return l.at
}

// up is n/d rounded up.
func up(n, d int) int { return (n + d - 1) / d }
