// Package generatecontent is the translator of the generateContent protocol: its
// requests become bodies of the messages protocol, an answer's events become
// partial responses or one response, and listings and counts are written as it
// has them. It is pure: every method is a function of its arguments.
//
// One content becomes one native message, and one part one block, so that a
// place such as contents[3].parts[0] is the same on both sides; Error turns what
// the engine says of the native body back into the client's fields. But neighboring
// contents of the model are one message, and its neighboring texts one block: clients
// send a streamed answer back as one content for each piece.
//
// The protocol refuses fields that it does not know, and so does this: a request
// says nothing that goes unheard. Only safety settings have no effect, as
// nothing here is filtered, nor labels and a tier of service, which do not change
// an answer, and a thinking budget says no more than whether to think. Names may be
// in camel or in snake case.
//
// Arguments of calls are objects, so a call is written when it is whole. The
// thinking before the first call of an answer goes along as its signature: a
// client that sends it back gives the model its thinking again.
package generatecontent

import (
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
	"corenode/wasm/sdk/piece"
)

// Translator translates between generateContent and messages. It has no state.
type Translator struct{}

// New returns the translator, an sdk.Router.
func New() Translator { return Translator{} }

// Handler is the translator as a module.
func Handler() sdk.Handler { return piece.Handler(New()) }

// The routes, in the manifest's order: first below /v1beta, then the same ones
// below a prefix with any version, where SDKs of every version find them. Those
// with a model follow once more for an id with a slash, which SDKs send as it is.
const (
	routeGenerate = iota
	routeStream
	routeCount
	routeList
	routeModel
	routes // of each prefix
)

// routeOf is which of them a route of the manifest is.
func routeOf(route *abi.Route) int {
	i := route.Index
	if i < 2*routes {
		return i % routes
	}
	if i = (i - 2*routes) % (routes - 1); i >= routeList { // a listing has no model
		i++
	}
	return i
}

// modelOf is the id of the model that the path names.
func modelOf(route *abi.Route) string {
	model := route.Param("model")
	if owner := route.Param("owner"); owner != "" {
		return owner + "/" + model
	}
	return model
}

// kept is what an answer must know of its request: Translated.Kept is one byte of
// these bits, and never empty for a request that was translated.
type kept byte

const (
	// keptThoughts: the client wants to see the thinking.
	keptThoughts kept = 1 << iota
	// keptArray: a stream that is one array of responses, for want of alt=sse. Each is a line.
	keptArray
	// keptMoved: blocks do not stand where their parts do.
	keptMoved
	// keptRegrouped: tools do not stand where their declarations do.
	keptRegrouped
	// keptJSONSchema: the format came as responseJsonSchema.
	keptJSONSchema
	// keptJoined: messages do not stand where their contents do.
	keptJoined
)

func readKept(b []byte) kept {
	if len(b) == 0 {
		return 0
	}
	return kept(b[0])
}

// camel is a field's name as the protocol spells it: it may come in snake case.
func camel(name []byte) string {
	out, upper := make([]byte, 0, len(name)), false
	for _, c := range name {
		switch {
		case c == '_':
			upper = true
			continue
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		out, upper = append(out, c), false
	}
	return string(out)
}
