package abi

import (
	"strconv"
	"strings"
)

// Reason says as a number what is wrong with a request, so that each protocol
// can say it in its own words. Guests of ABI 1.1 see the number: append only.
type Reason uint16

const (
	// ReasonNone: Msg says all of it, and may name the path itself.
	ReasonNone Reason = iota
	// ReasonField: the field at Param cannot be served. Msg says why, and does not name the path.
	ReasonField
	// ReasonLimit: as ReasonField, because Value is beyond Bound.
	ReasonLimit
	// ReasonSyntax: the native body is no valid JSON at Param. Msg says what is wrong
	// there, Value at which byte; it is -1 where the body ends early.
	ReasonSyntax
	// ReasonWindow: a prompt of Prompt tokens and the Value tokens that Param asks for
	// are together more than the context window, which is Bound. There is no Msg.
	ReasonWindow
	// ReasonMemory: the prompt and the tokens that Param asks for are together Value
	// tokens; this node's memory holds Bound. There is no Msg.
	ReasonMemory
	// ReasonAnyCall: a call is forced, of any tool, and there are no tools. There is no Msg.
	ReasonAnyCall
	// ReasonNamedCall: as ReasonAnyCall, of the tool with a name.
	ReasonNamedCall
	// reasonEnd is one past the last reason.
	reasonEnd
)

var reasonNames = [reasonEnd]string{"", "field", "limit", "syntax", "window", "memory", "any_call", "named_call"}

// ReasonNamed returns the reason with a name of golden vectors: "window". The
// empty name is ReasonNone.
func ReasonNamed(name string) (r Reason, ok bool) {
	for i, known := range reasonNames {
		if name == known {
			return Reason(i), true
		}
	}
	return ReasonNone, false
}

// Detail is a failure as data: why, and the numbers that the reason has.
type Detail struct {
	Reason Reason
	Prompt int64 // tokens of the prompt
	Value  int64
	Bound  int64
}

// Words are what a protocol's sentences call things.
type Words struct {
	AnyCall   string // a forced call of any tool
	NamedCall string // a forced call of one tool
	// Native: the client wrote the native body. Where a translated body is broken
	// would only mislead: the client never saw it.
	Native bool
}

// nativeWords are those of the messages protocol.
var nativeWords = Words{AnyCall: `"any"`, NamedCall: `"tool"`, Native: true}

// Sentence is what a client reads of the failure. path is the field at fault as
// that client knows it, and msg the failure's Msg.
func (d Detail) Sentence(path, msg string, w *Words) string {
	decimal := func(n int64) string { return strconv.FormatInt(n, 10) }
	switch d.Reason {
	case ReasonSyntax:
		if w.Native {
			msg = "the body is not valid JSON: " + msg
			if d.Value >= 0 {
				msg += " at byte " + decimal(d.Value)
			}
		}
	case ReasonWindow:
		return "the prompt has " + decimal(d.Prompt) + " tokens and " + path + " is " + decimal(d.Value) +
			": together more than the context window of " + decimal(d.Bound)
	case ReasonMemory:
		return "prompt and " + path + " together are " + decimal(d.Value) + " tokens; this node's memory holds " + decimal(d.Bound)
	case ReasonAnyCall:
		return w.AnyCall + " needs tools"
	case ReasonNamedCall:
		return w.NamedCall + " needs tools"
	}
	return msg
}

// native is the sentence of the messages protocol, which logs and modules of ABI
// 1.0 get. It begins with the path, but where no path ever stood before it.
func (d Detail) native(path, msg string) string {
	msg = d.Sentence(path, msg, &nativeWords)
	if path == "" || d.Reason == ReasonNone || d.Reason == ReasonMemory {
		return msg
	}
	return path + ": " + msg
}

// Located returns msg behind the path of the field that it is about, unless it
// begins with that path: people read the message only.
func Located(path, msg string) string {
	if path == "" || strings.HasPrefix(msg, path) {
		return msg
	}
	return path + ": " + msg
}

// NonStreamingMax is the most tokens of an answer that is not a stream.
const NonStreamingMax = 32768

// CheckNonStreaming refuses n tokens of an answer that is not a stream, which the field at path asks for.
func CheckNonStreaming(path string, n int64) *Error {
	if n <= NonStreamingMax {
		return nil
	}
	return &Error{Kind: InvalidRequest, Param: path, Detail: Detail{Reason: ReasonLimit, Value: n, Bound: NonStreamingMax},
		Msg: strconv.FormatInt(n, 10) + " is over " + strconv.Itoa(NonStreamingMax) +
			`, the most without streaming; set "stream": true for longer answers`}
}
