package interp_test

import (
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest"
	"corenode/engine/kernel/cuda/interp"
)

// TestInstructions compares instructions with what the ISA says of them, each
// group on a device of its own: one that is lost spoils no other.
func TestInstructions(t *testing.T) {
	for name, check := range map[string]func(*testing.T, cuda.Driver){
		"integers": cudatest.Integers, "floats": cudatest.Floats, "conversions": cudatest.Conversions,
		"matrices": cudatest.Matrices, "groups": cudatest.Groups, "boxes": cudatest.Boxes,
		"lanes": cudatest.Lanes, "atomics": cudatest.Atomics, "moves": cudatest.Moves, "copies": cudatest.Copies, "streams": cudatest.Streams,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				d := interp.Open(interp.Config{Seed: seed, Workers: 2, Shadow: seed > 0})
				check(t, d)
				d.Written(t)
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
