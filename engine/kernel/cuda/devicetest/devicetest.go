// Package devicetest opens what tests of GPU kernels run on: the interpreter everywhere, and the first GPU
// where CORENODE_GPU is set and the test is built with the tag cuda. Only tests import it.
package devicetest

import (
	"math/rand/v2"
	"os"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/cuda/libcuda"
)

// variable asks for a GPU.
const variable = "CORENODE_GPU"

// OnGPU says whether Open returns one.
func OnGPU() bool { return os.Getenv(variable) != "" }

// Open returns a device, interpreted as c says. A seed of 0 is a random one. The test logs which it is,
// and whoever uses the device closes it.
func Open(t testing.TB, c interp.Config) cuda.Driver {
	t.Helper()
	if !OnGPU() {
		if c.Seed == 0 {
			c.Seed = rand.Uint64()
		}
		t.Logf("interpreted with seed %d", c.Seed)
		return interp.Open(c)
	}
	d, err := libcuda.Open("", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("on %s, compute capability %d", d.Name(), d.Compute())
	return d
}
