// Package gguftest makes model files for tests: folders of safetensors, other tensor types
// and prediction layers. Only tests import it.
package gguftest

import (
	"bytes"

	"corenode/engine/modelfile"
)

// KV is one metadata entry.
type KV = modelfile.KV

// Bytes is a file in memory; it panics on a value that cannot be written,
// which only a mistake in a test can cause.
func Bytes(meta []KV, tensors []*modelfile.Tensor) []byte {
	var b bytes.Buffer
	if err := modelfile.Write(&b, meta, tensors, nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}
