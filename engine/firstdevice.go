//go:build cuda && !interpreted

package engine

import (
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/libcuda"
)

// firstDevice computes on the first GPU of the system's driver.
func firstDevice() (kernel.Backend, error) {
	d, err := libcuda.Open("", 0)
	if err != nil {
		return nil, err
	}
	return fused.New(d, eager.Options{})
}
