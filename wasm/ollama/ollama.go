// Package ollama is the translator of the Ollama API: chat and generate become
// bodies of the messages protocol, their answers lines of JSON or one object;
// tags, ps, show and version come from the node's listing. It is pure: every
// method is a function of its arguments and safe for concurrent use.
//
// That API differs from the node in three ways. An answer streams unless the
// body says otherwise. Calls of tools have no ids that all clients send back: a
// result without one belongs to the first open call of its name, or to the first
// of all, and one without a call is a result all the same. And
// options for the loading of models are everywhere: they are accepted and do
// nothing, as keep_alive does, but an option that would change the answer and
// cannot be honored is refused by name.
package ollama

import (
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
	"corenode/wasm/sdk/piece"
)

// Version is the one of the Ollama API that version reports.
const Version = "0.12.6"

// The routes, by their place in the manifest.
const (
	routeChat = iota
	routeGenerate
	routeTags
	routePS
	routeShow
	routeVersion
)

// Translator translates between the Ollama API and messages. It has no state.
type Translator struct{}

// New returns the translator, an sdk.Router.
func New() Translator { return Translator{} }

// Handler is the translator as a module.
func Handler() sdk.Handler { return piece.Handler(New()) }

// kept is what an answer must know of its request: Translated.Kept is one byte
// of these bits. It is never empty for a request that was translated.
type kept byte

const (
	// keptGenerate: the request was a generate, whose answer is no message.
	keptGenerate kept = 1 << iota
	// keptSystem: the first message is what a generate has as system.
	keptSystem
)

func readKept(b []byte) kept {
	if len(b) == 0 {
		return 0
	}
	return kept(b[0])
}

// Count is of no route.
func (Translator) Count(dst []byte, _ abi.CountInput) []byte { return append(dst, "{}"...) }
