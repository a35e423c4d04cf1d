package sdk

import "corenode/wasm/abi"

// Serve makes h the module of this guest program. Call it in an init
// function: a module has no main that runs. A configuration that the operator
// gives to such a module is refused. In a native build it does nothing.
func Serve(h Handler) { serve(h, nil) }

// ServeConfigurable is Serve for a module that takes the operator's
// configuration: c, usually what h was made of, sees it before h is called.
func ServeConfigurable(h Handler, c Configurable) { serve(h, c) }

// configure appends the output frame of init. No configuration and an empty
// object are the same: c gets "{}" for both.
func configure(c Configurable, config, dst []byte) []byte {
	if len(config) == 0 {
		config = []byte("{}")
	}
	if c == nil {
		if string(config) == "{}" {
			return ok(dst, func(dst []byte) []byte { return dst })
		}
		return refuse(dst, &abi.Error{Kind: abi.InvalidRequest, Msg: "this module takes no configuration"})
	}
	if err := c.Configure(config); err != nil {
		return refuse(dst, &abi.Error{Kind: abi.InvalidRequest, Msg: err.Error()})
	}
	return ok(dst, func(dst []byte) []byte { return dst })
}

// Level says how urgent a line of Log is.
type Level int32

const (
	Debug Level = iota // for whoever looks for a fault
	Info               // as it should be
	Warn               // odd, and dealt with
	Error              // somebody must look
)

// Log writes one line to the node's log, under the module's name. The host
// cuts it, takes control characters out and drops lines over its rate. Never
// log what a client said. In a native build it does nothing.
func Log(l Level, text string) { log(l, text) }

// Count adds delta to counter id, 0 to 15, of this module in the node's
// metrics. In a native build it does nothing.
func Count(id int32, delta int64) { count(id, delta) }
