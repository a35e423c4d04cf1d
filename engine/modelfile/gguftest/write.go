// Package gguftest makes model files for tests: quantizers and
// a converter between tensor types. Only tests import it; its encoders favor
// being plain over speed and smallest error.
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
