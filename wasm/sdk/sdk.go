// Package sdk is what the author of a module imports: say what the module
// does as one of Translator, Billing, Admission, Rewrite or Filter, and hand it to Serve.
//
//	func init() { sdk.Serve(sdk.BillingHandler(discount{})) }
//	func main() {}
//
// Built with GOOS=wasip1 GOARCH=wasm and -buildmode=c-shared it is a module of
// node-abi/1; built natively the same handler is an ordinary function, which is
// how modules are tested and how the node carries the shipped ones as fallback.
package sdk

import (
	"errors"

	"corenode/wasm/abi"
)

// Handler is a module without its edges: it appends the output frame of one
// operation to dst and keeps no reference to in, behind which a guest has abi.Ahead
// bytes more. It is a pure function; a handler that the node runs natively is called
// from many goroutines at once.
type Handler func(op abi.Op, in, dst []byte) []byte

// Translator turns requests of another protocol into the messages protocol,
// and answers back. What it appends goes to dst.
type Translator interface {
	// Request translates a body. An error of kind InvalidRequest is told to the client.
	Request(in abi.RequestInput) (abi.Translated, *abi.Error)
	// Events appends the bytes of one event group to dst and the next state to state.
	Events(dst, state []byte, in abi.EventsInput) (bytes, next []byte)
	// Response appends the body of a whole answer.
	Response(dst []byte, in abi.ResponseInput) []byte
	// Error appends an error's body, or with in.Facts.Stream the frames that end
	// a broken stream.
	Error(dst []byte, in abi.ErrorInput) []byte
}

// Router is a Translator whose manifest has routes: Request, Events, Response and
// Error serve those of op generate.
type Router interface {
	Translator
	// Models appends the body that answers a route of op models. An error of kind
	// InvalidRequest or ModelNotFound is told to the client.
	Models(dst []byte, in abi.ModelsInput) ([]byte, *abi.Error)
	// Count appends the body that answers a route of op count, whose request
	// Request has translated.
	Count(dst []byte, in abi.CountInput) []byte
}

// Billing turns usage into money, in integers.
type Billing interface {
	Quote(in abi.QuoteInput) (abi.Quote, error)
	Charge(in abi.ChargeInput) (abi.Charge, error)
}

// Admission decides whether a request may be served now.
type Admission interface {
	Decide(in abi.AdmissionInput) abi.Decision
}

// Rewrite changes messages bodies before they are prepared.
type Rewrite interface {
	// Rewrite gives the body to go on with, nil for the one it got. An error of kind
	// InvalidRequest refuses the request and is told to the client.
	Rewrite(in abi.RewriteInput) ([]byte, *abi.Error)
}

// Filter sees the text and the thinking of answers before clients do.
type Filter interface {
	// Filter gives what may be shown by now. What it holds back is in the state, of at
	// most abi.FilterStateMax bytes, that comes back with the next piece of the block.
	// With ErrDecline the text is shown as it is; any other error is a fault with that
	// message, and the answer ends.
	Filter(in abi.FilterInput) (abi.Filtered, error)
}

// ErrDecline leaves a text as it is.
var ErrDecline error = decliningError{}

type decliningError struct{}

func (decliningError) Error() string { return "the module declines" }

// declined says whether a call declines; another error is a fault.
func declined(err error) bool {
	if err == nil || errors.Is(err, ErrDecline) {
		return err != nil
	}
	panic(err)
}

// Configurable is implemented by modules that take the operator's
// configuration, a JSON object; an error refuses the load and is shown. It is
// called once, before every other operation; without a configuration it gets "{}".
type Configurable interface {
	Configure(config []byte) error
}
