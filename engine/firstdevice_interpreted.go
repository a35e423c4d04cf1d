//go:build interpreted

package engine

import (
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/interp"
)

// interpretedMemory is what each device has.
const interpretedMemory = 256 << 20

// firstDevice computes on an interpreted GPU, in a program that rehearses on a machine without one.
func firstDevice() (kernel.Backend, error) {
	return fused.New(interp.Open(interp.Config{Seed: 1, Workers: 2, Memory: interpretedMemory}), eager.Options{})
}
