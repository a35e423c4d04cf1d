// Command completions is a translator for slot chat: the old text completions
// dialect, a prompt in and text out, for clients that speak nothing else.
//
//	{"model": "core-1.1", "prompt": "Once", "max_tokens": 64, "stream": true}
//
// Thinking is left out of the text. What the dialect does not have is refused.
package main

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
	"corenode/wasm/sdk/scan"
)

func init() { sdk.Serve(sdk.TranslatorHandler(completions{})) }

func main() {}

type completions struct{}

// fields are the body's fields and what the messages protocol calls them. The
// node checks their values; an empty name is a field that needs no translation.
var fields = [...]struct{ name, native string }{
	{"model", "model"}, {"max_tokens", "max_tokens"}, {"temperature", "temperature"}, {"top_p", "top_p"},
	{"stop", "stop_sequences"}, {"stream", "stream"}, {"prompt", ""}, {"user", ""},
}

// Request translates a body; values are copied as they are written.
func (completions) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	var values [len(fields)][]byte
	var prompt []byte
	var s scan.Scanner
	s.Reset(in.Body)
	if s.Kind() != scan.Object || !s.Open() {
		return refuse("", "the body is no JSON object")
	}
	for s.Next() {
		name := string(s.Key())
		i := index(name)
		if i < 0 {
			return refuse(name, "text completions have no such field")
		}
		if name == "prompt" && s.Kind() != scan.String {
			return refuse("prompt", "prompt must be a string")
		}
		values[i] = s.Raw()
		if name == "prompt" {
			prompt = values[i]
		}
	}
	if !s.End() {
		return refuse("", "the body is no JSON object")
	}
	if prompt == nil {
		return refuse("prompt", "prompt must be a string")
	}
	body := append([]byte(`{"messages":[{"role":"user","content":`), prompt...)
	body = append(body, "}]"...)
	for i, f := range fields {
		if values[i] == nil || f.native == "" {
			continue
		}
		value := values[i]
		if f.name == "stop" && value[0] == '"' { // one stop sequence may go without an array
			value = append(append([]byte{'['}, value...), ']')
		}
		body = append(append(append(append(body, `,"`...), f.native...), `":`...), value...)
	}
	return abi.Translated{Body: append(body, '}')}, nil
}

func index(name string) int {
	for i, f := range fields {
		if f.name == name {
			return i
		}
	}
	return -1
}

func refuse(param, msg string) (abi.Translated, *abi.Error) {
	return abi.Translated{}, &abi.Error{Kind: abi.InvalidRequest, Param: param, Msg: msg}
}

// Events needs no state: each chunk says all that it must.
func (completions) Events(dst, state []byte, in abi.EventsInput) (written, next []byte) {
	for f, ok := in.Events.Next(); ok; f, ok = in.Events.Next() {
		switch {
		case f.Kind == abi.EventDelta && f.Block == abi.BlockText:
			dst = appendHead(append(dst, "data: "...), in.Facts)
			dst = append(append(dst, f.Payload...), `","index":0,"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
		case f.Kind == abi.EventEnd:
			dst = appendHead(append(dst, "data: "...), in.Facts)
			dst = append(appendEnd(dst, f), "\n\ndata: [DONE]\n\n"...)
		}
	}
	return dst, state
}

// Response writes a whole answer.
func (completions) Response(dst []byte, in abi.ResponseInput) []byte {
	dst = appendHead(dst, in.Facts)
	var end abi.Frame
	for f, ok := in.Events.Next(); ok; f, ok = in.Events.Next() {
		switch {
		case f.Kind == abi.EventDelta && f.Block == abi.BlockText:
			dst = append(dst, f.Payload...)
		case f.Kind == abi.EventEnd:
			end = f
		}
	}
	return appendEnd(dst, end)
}

// appendHead writes a whole answer, or one chunk of a stream, up to the text.
func appendHead(dst []byte, f abi.Facts) []byte {
	dst = abi.AppendEscaped(append(dst, `{"id":"cmpl-`...), f.ID)
	dst = append(dst, `","object":"text_completion","created":`...)
	dst = strconv.AppendInt(dst, f.Created, 10)
	dst = abi.AppendEscaped(append(dst, `,"model":"`...), f.Model)
	return append(dst, `","choices":[{"text":"`...)
}

// appendEnd writes the rest behind the text, as the end of the answer says.
func appendEnd(dst []byte, end abi.Frame) []byte {
	reason := `"stop"`
	if end.Stop == abi.StopMaxTokens {
		reason = `"length"`
	}
	u := end.Usage()
	dst = append(append(dst, `","index":0,"logprobs":null,"finish_reason":`...), reason...)
	dst = strconv.AppendInt(append(dst, `}],"usage":{"prompt_tokens":`...), u.Input(), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), u.Output, 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), u.Input()+u.Output, 10)
	return append(dst, "}}"...)
}

// Error writes an error's body, or the event that ends a broken stream.
func (completions) Error(dst []byte, in abi.ErrorInput) []byte {
	if in.Facts.Stream {
		dst = append(dst, "data: "...)
	}
	dst = abi.AppendEscaped(append(dst, `{"error":{"message":"`...), in.Msg)
	dst = append(append(dst, `","type":"`...), errorType(in.Kind)...)
	if in.Param != "" {
		dst = abi.AppendEscaped(append(dst, `","param":"`...), in.Param)
		dst = append(dst, `","code":null}}`...)
	} else {
		dst = append(dst, `","param":null,"code":null}}`...)
	}
	if in.Facts.Stream {
		dst = append(dst, "\n\n"...)
	}
	return dst
}

func errorType(k abi.Kind) string {
	switch k {
	case abi.Unauthenticated:
		return "authentication_error"
	case abi.InsufficientBalance:
		return "insufficient_quota"
	case abi.RateLimited:
		return "rate_limit_error"
	case abi.Internal, abi.Overloaded, abi.Timeout:
		return "server_error"
	}
	return "invalid_request_error"
}
