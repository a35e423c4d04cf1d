//go:build !interpreted

package engine

import (
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/libcuda"
)

// firstDevice is the first GPU of the system's driver.
func firstDevice() (cuda.Driver, error) { return libcuda.Open("", 0) }
