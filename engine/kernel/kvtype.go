package kernel

import "fmt"

// KVType is what a cache stores K and V as.
type KVType uint8

const (
	// KVF16 is IEEE float16, rounded to nearest.
	KVF16 KVType = iota
	// KVF32 is float32, for comparisons: nothing is rounded.
	KVF32
	// KVQ8 is 8-bit codes. KVBlock values of a head, of one position, share a
	// float16 scale: what a position holds depends on no other position.
	KVQ8
)

// KVBlock is how many values of a head share a scale in KVQ8; the last block of
// a head may be shorter.
const KVBlock = 32

var kvNames = [...]string{KVF16: "f16", KVF32: "f32", KVQ8: "q8"}

// String is the name that ParseKVType reads.
func (t KVType) String() string { return kvNames[t] }

// ParseKVType finds a type by its name: f16, f32 or q8.
func ParseKVType(name string) (KVType, error) {
	for t, n := range kvNames {
		if n == name {
			return KVType(t), nil
		}
	}
	return 0, fmt.Errorf("kv type %q, want f16, f32 or q8", name)
}
