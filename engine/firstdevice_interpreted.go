//go:build interpreted

package engine

import (
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/interp"
)

// interpretedMemory is what each device has.
const interpretedMemory = 256 << 20

// firstDevice is an interpreted GPU, in a program that rehearses on a machine without one.
func firstDevice() (cuda.Driver, error) {
	return interp.Open(interp.Config{Seed: 1, Workers: 2, Memory: interpretedMemory}), nil
}
