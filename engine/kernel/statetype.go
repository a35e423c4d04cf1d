package kernel

import "fmt"

// StateType is what a cache stores the states of linear layers as. It is computed with float32, and
// the inputs of convolutions are float32 always.
type StateType uint8

const (
	// StateF32 is float32: nothing is rounded.
	StateF32 StateType = iota
	// StateBF16 is bfloat16, rounded to nearest even whenever a state is stored.
	StateBF16
)

var stateNames = [...]string{StateF32: "f32", StateBF16: "bf16"}

// String is the name that ParseStateType reads.
func (t StateType) String() string { return stateNames[t] }

// ParseStateType finds a type by its name: f32 or bf16.
func ParseStateType(name string) (StateType, error) {
	for t, n := range stateNames {
		if n == name {
			return StateType(t), nil
		}
	}
	return 0, fmt.Errorf("state type %q, want f32 or bf16", name)
}

// StateSize is what a slot takes: old inputs of convolutions as float32, and states of a type of so many bytes.
func (c CacheConfig) StateSize(each int) int64 {
	if c.LinearLayers == 0 {
		return 0
	}
	inputs := int64(c.ConvKernel-1) * int64(c.ConvDim)
	return int64(c.LinearLayers) * (4*inputs + int64(each)*int64(c.VHeads)*int64(c.StateDim)*int64(c.StateDim))
}
