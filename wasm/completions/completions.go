// Package completions is the translator of legacy text completions: one prompt,
// which the model goes on with as it is. There are no roles, no thinking and no
// template, and no special token is recognized in the prompt: the native body
// asks for a raw text. It is pure: every method is a function of its arguments
// and safe for concurrent use.
package completions

import (
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
	"corenode/wasm/sdk/piece"
)

// Translator translates between text completions and messages. It has no state.
type Translator struct{}

// New returns the translator, an sdk.Router.
func New() Translator { return Translator{} }

// Handler is the translator as a module.
func Handler() sdk.Handler { return piece.Handler(New()) }

// kept is what an answer must know of its request: the first byte of
// Translated.Kept is these bits, and behind it stands the prompt, raw, if it is echoed.
type kept byte

const (
	// keptUsage: the client asked for a usage chunk.
	keptUsage kept = 1 << iota
	// keptStopText: stop was a string, no array.
	keptStopText
	// keptArray: the prompt was in an array.
	keptArray
)

func readKept(b []byte) (k kept, echo []byte) {
	if len(b) == 0 {
		return 0, nil
	}
	return kept(b[0]), b[1:]
}

// Models is of no route.
func (Translator) Models(dst []byte, _ abi.ModelsInput) ([]byte, *abi.Error) {
	return append(dst, "{}"...), nil
}

// Count is of no route.
func (Translator) Count(dst []byte, _ abi.CountInput) []byte { return append(dst, "{}"...) }
