package completions

import (
	"strconv"
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/piece"
)

// Between the head of a chunk, which is the same on all of an answer, and its
// tail stands one text.
const (
	choice    = `,"choices":[{"text":"`
	rest      = `","index":0,"logprobs":null,"finish_reason":`
	tail      = rest + "null}]}\n\n"
	tailUsage = rest + "null}],\"usage\":null}\n\n"
	done      = "data: [DONE]\n\n"
)

// appendHead appends how a whole answer and each chunk begin. The model id comes
// from the operator's configuration and may hold anything.
func appendHead(dst []byte, f *abi.Facts) []byte {
	dst = append(append(append(dst, `{"id":"cmpl-`...), f.ID...), `","object":"text_completion","created":`...)
	dst = append(strconv.AppendInt(dst, f.Created, 10), `,"model":"`...)
	return append(abi.AppendEscaped(dst, f.Model), '"')
}

// Events writes the chunks of one event group.
func (t Translator) Events(dst, next []byte, in abi.EventsInput) (written, after []byte) {
	return piece.Events(t, dst, next, in)
}

// Around gives what stands before and after a piece; see piece.Writer. What a
// model thinks is none: an answer to a raw text has no thinking.
func (Translator) Around(state []byte, facts *abi.Facts, b abi.BlockKind) (before, after []byte) {
	if b != abi.BlockText {
		return nil, nil
	}
	before = append(appendHead([]byte("data: "), facts), choice...)
	if k, _ := readKept(state); k&keptUsage != 0 {
		return before, []byte(tailUsage)
	}
	return before, []byte(tail)
}

// Other writes the prompt again before everything if it is echoed, and the end.
func (t Translator) Other(dst, state []byte, in *abi.EventsInput, f abi.Frame) (written, next []byte) {
	switch f.Kind {
	case abi.EventStart:
		k, echo := readKept(in.Kept)
		state = []byte{byte(k)}
		if len(echo) > 0 {
			before, after := t.Around(state, &in.Facts, abi.BlockText)
			dst = append(append(append(dst, before...), echo...), after...)
		}
	case abi.EventEnd:
		k, _ := readKept(in.Kept)
		dst = append(appendHead(append(dst, "data: "...), &in.Facts), choice+rest...)
		dst = append(append(dst, finishReason(f.Stop)...), "}]"...)
		if k&keptUsage != 0 {
			dst = append(dst, ",\"usage\":null}\n\ndata: "...)
			dst = append(appendHead(dst, &in.Facts), `,"choices":[]`...)
			dst = appendUsage(dst, f.Usage())
		}
		dst = append(dst, "}\n\n"+done...)
	}
	return dst, state
}

// Response writes the body of a whole answer.
func (Translator) Response(dst []byte, in abi.ResponseInput) []byte {
	_, echo := readKept(in.Kept)
	dst = append(append(appendHead(dst, &in.Facts), choice...), echo...)
	dst = append(piece.AppendTexts(dst, in.Events, abi.BlockText), rest...)
	var end abi.Frame
	for f, ok := in.Events.Next(); ok; f, ok = in.Events.Next() {
		if f.Kind == abi.EventEnd {
			end = f
		}
	}
	return append(appendUsage(append(append(dst, finishReason(end.Stop)...), "}]"...), end.Usage()), '}')
}

func finishReason(r abi.StopReason) string {
	if r == abi.StopMaxTokens {
		return `"length"`
	}
	return `"stop"`
}

// appendUsage appends the usage, with a comma before it. The echo is no output.
func appendUsage(dst []byte, u abi.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `,"usage":{"prompt_tokens":`...), u.Input(), 10)
	dst = piece.AppendInt(dst, "completion_tokens", u.Output)
	dst = piece.AppendInt(dst, "total_tokens", u.Input()+u.Output)
	dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), u.CacheRead, 10)
	return append(dst, "}}"...)
}

// Error writes the body of an error, or the event that ends a broken stream: no
// mark follows it, so that the stream does not look finished.
func (Translator) Error(dst []byte, in abi.ErrorInput) []byte {
	path := in.Param
	if len(in.Kept) > 0 { // the engine refused the native body
		k, _ := readKept(in.Kept)
		path = clientPath(path, k)
	}
	if in.Facts.Stream {
		dst = append(dst, "data: "...)
	}
	message := abi.Located(path, in.Sentence(path, in.Msg, &abi.Words{}))
	dst = append(in.Names(in.Kind).AppendObject(append(dst, `{"error":`...), path, message), '}')
	if in.Facts.Stream {
		dst = append(dst, "\n\n"...)
	}
	return dst
}

// clientPath turns the path of a field in the native body into the path of what
// it was made of.
func clientPath(native string, k kept) string {
	first, deep, _ := strings.Cut(native, ".")
	switch {
	case first == "stop_sequences" && (deep == "" || k&keptStopText != 0):
		return "stop"
	case first == "stop_sequences":
		return "stop." + deep
	case first == "messages" && k&keptArray != 0:
		return "prompt.0"
	case first == "messages", first == "raw":
		return "prompt"
	}
	return native
}
