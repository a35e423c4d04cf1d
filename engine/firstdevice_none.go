//go:build !cuda && !interpreted

package engine

import (
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/libcuda"
)

// firstDevice says that this program is not built for GPUs. It has none of their kernels either.
func firstDevice() (kernel.Backend, error) {
	_, err := libcuda.Open("", 0)
	return nil, err
}
