package abi

import (
	"strconv"
	"strings"
)

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

// Words are what a protocol's sentences call things, each as the subject of one: `"required"` needs tools.
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
		// Coding agents look for these words, and then ask for less or shorten the conversation.
		bound := decimal(d.Bound)
		return "input length and `max_tokens` exceed context limit: " + decimal(d.Prompt) + " + " + decimal(d.Value) + " > " + bound +
			" (this model's maximum context length is " + bound + " tokens; decrease the prompt or " + path + ")"
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
