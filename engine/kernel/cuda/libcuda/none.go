//go:build !cuda || !linux

package libcuda

import "corenode/engine/kernel/cuda"

// Open says that this program is not built for GPUs.
func Open(string, int) (cuda.Driver, error) {
	return nil, &cuda.Error{Code: cuda.NotFound, Op: "open", Msg: "this program is built without CUDA: make build-cuda builds one with it"}
}
