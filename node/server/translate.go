package server

import (
	"strings"
	"time"

	"corenode/engine/messages"
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// requestIDPrefix stands before a request's own part of its id.
const requestIDPrefix = "req_"

// facts are what a translator may show of the request before it is admitted.
func (x *exchange) facts() abi.Facts {
	return abi.Facts{ID: strings.TrimPrefix(x.id, requestIDPrefix), Created: x.begun.Unix()}
}

// answerFacts are what is known besides once the request has a model.
func (x *exchange) answerFacts(model string) abi.Facts {
	f := x.facts()
	f.Model, f.Stream = x.shownModel(model), x.stream
	return f
}

// openTranslation opens the translation of the request, for its account, or with none for the error that it ends with.
// It is false where no module serves, or one that came to serve since the route was found and has others: the key and
// the body were looked for where the manifest says in which it was found.
func (x *exchange) openTranslation(protocol, account string) bool {
	t := x.s.deps.Translators.Translate(protocol, account, x.id, x.facts())
	if t == nil {
		return false
	}
	if x.module != nil && !t.SetRoute(x.module.Manifest, x.module.facts(&x.ctx.Request.Header)) {
		t.Close()
		return false
	}
	x.translation = t
	return true
}

// translate makes a messages body of one of another protocol. It counts against
// the node's budget like the one it was made from.
func (x *exchange) translate(body []byte) ([]byte, error) {
	began := time.Now()
	native, err := x.translation.Request(body)
	x.called("translate", x.translation.Module(), began)
	if err != nil {
		return nil, err
	}
	if refusal := x.body.takeMade(native); refusal != nil {
		return nil, refusal
	}
	return native, nil
}

// streams refuses a stream that the module of a path wants and cannot write.
func (x *exchange) streams(request *messages.Request) error {
	if x.module == nil || !request.Stream {
		return nil
	}
	m := x.module.Manifest
	if x.array = request.StreamArray; m.Framing == guest.FramingJSON || x.array && !m.Array {
		return &abi.Error{Kind: abi.Overloaded, Op: "server.translate", RetryAfter: time.Second,
			Msg: "the module of this path wants a stream, which it has not"}
	}
	return nil
}

// errorBody is the body of an error response: the translator's as soon as there
// is one.
func (x *exchange) errorBody(e *abi.Error, status int) []byte {
	if x.translation != nil && !x.suspect {
		if b := x.translation.Error(nil, e, status); len(b) > 0 {
			return b
		}
	}
	return x.family.appendError(nil, e)
}
