// Package chat is the translator of the chat completions protocol: a request
// becomes a body of the messages protocol, an answer's events become chunks or
// one completion object. It is pure: every method is a function of its
// arguments, safe for concurrent use, and knows neither clock nor network.
//
// One chat message becomes one native message, so that a path such as
// messages.3 means the same on both sides; Error turns what the engine says of
// the native body back into chat terms. Texts are never decoded: what stands
// between the quotes of the body stands between quotes in what is made of it,
// and the payloads of event frames are escaped already.
//
// A response_format becomes the native field of that name, which holds the
// schema as it was sent, also one beside json_object; the engine makes the answer fit.
//
// A name that an object has twice counts the last time, as in most readers of
// JSON; in what is passed on whole (tool schemas, arguments) it is refused.
package chat

import (
	"corenode/wasm/sdk"
	"corenode/wasm/sdk/piece"
)

// Translator translates between chat completions and messages. It has no state.
type Translator struct{}

// New returns the translator, an sdk.Translator.
func New() Translator { return Translator{} }

// Handler is the translator as a module.
func Handler() sdk.Handler { return piece.Handler(New()) }

// kept is what an answer must know of its request: Translated.Kept is one byte
// of these bits. It is never empty for a request that was translated.
type kept byte

const (
	// keptUsage: the client asked for a usage chunk.
	keptUsage kept = 1 << iota
	// keptCompletionTokens: the budget came as max_completion_tokens.
	keptCompletionTokens
	// keptStopText: stop was a string, no array.
	keptStopText
	// keptRenumbered: the tools' places differ from those in the request.
	keptRenumbered
	// keptObjectSchema: the schema of the answer came with a json_object.
	keptObjectSchema
)

func readKept(b []byte) kept {
	if len(b) == 0 {
		return 0
	}
	return kept(b[0])
}
