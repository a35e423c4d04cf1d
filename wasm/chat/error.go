package chat

import (
	"strings"

	"corenode/wasm/abi"
)

// class is how a kind of error looks in this protocol. The node writes the
// same ones for errors that no translator is asked for.
type class struct{ kind, code string }

var classes = [...]class{
	abi.Internal:            {"server_error", "internal_error"},
	abi.InvalidRequest:      {"invalid_request_error", "invalid_request"},
	abi.ModelNotFound:       {"invalid_request_error", "model_not_found"},
	abi.PathNotFound:        {"invalid_request_error", "not_found"},
	abi.Unauthenticated:     {"authentication_error", "unauthorized"},
	abi.InsufficientBalance: {"billing_error", "insufficient_balance"},
	abi.RateLimited:         {"rate_limit_error", "rate_limited"},
	abi.Overloaded:          {"overloaded_error", "overloaded"},
	abi.TooLarge:            {"invalid_request_error", "request_too_large"},
	abi.MethodNotAllowed:    {"invalid_request_error", "method_not_allowed"},
	abi.UnsupportedEncoding: {"invalid_request_error", "unsupported_media_type"},
	abi.ReadTimeout:         {"invalid_request_error", "request_timeout"},
	abi.Timeout:             {"timeout_error", "timeout"},
	abi.Canceled:            {"server_error", "canceled"},
}

// Error writes the body of an error, or the event that ends a broken stream:
// no mark follows it, so that the stream does not look finished. The path of
// the offending field is part of the message too: people read that.
func (Translator) Error(dst []byte, in abi.ErrorInput) []byte {
	c := classes[abi.Internal]
	if int(in.Kind) < len(classes) {
		c = classes[in.Kind]
	}
	path, msg := in.Param, in.Msg
	if path != "" && len(in.Kept) > 0 { // the engine refused the native body
		path = chatPath(in.Param, readKept(in.Kept))
		msg = chatWords(strings.TrimPrefix(msg, in.Param+": "), in.Param, path)
	}
	if in.Facts.Stream {
		dst = append(dst, "data: "...)
	}
	dst = append(dst, `{"error":{"message":"`...)
	if path != "" && !strings.HasPrefix(msg, path) {
		dst = append(abi.AppendEscaped(dst, path), ": "...)
	}
	dst = abi.AppendEscaped(dst, msg)
	dst = append(append(append(dst, `","type":"`...), c.kind...), `","param":`...)
	if path == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(abi.AppendEscaped(append(dst, '"'), path), '"')
	}
	dst = append(append(append(dst, `,"code":"`...), c.code...), `"}}`...)
	if in.Facts.Stream {
		dst = append(dst, "\n\n"...)
	}
	return dst
}

// chatWords turns what the engine says of a field of the native body into the
// words of the client. Where in that body it stands would only mislead: the
// client never saw it.
func chatWords(msg, native, path string) string {
	if rest, broken := strings.CutPrefix(msg, "the body is not valid JSON: "); broken {
		msg, _, _ = strings.Cut(rest, " at byte ")
	}
	switch native {
	case "max_tokens":
		return strings.ReplaceAll(msg, native, path)
	case "tool_choice":
		return strings.NewReplacer(`"any"`, `"required"`, `"tool"`, "a named function").Replace(msg)
	}
	return msg
}

// chatPath turns the path of a field in the native body into the path of what
// it was made of.
func chatPath(native string, k kept) string {
	first, rest, _ := strings.Cut(native, ".")
	switch first {
	case "max_tokens":
		if k&keptCompletionTokens != 0 {
			return "max_completion_tokens"
		}
	case "stop_sequences":
		if rest == "" || k&keptStopText != 0 {
			return "stop"
		}
		return "stop." + rest
	case "tool_choice":
		if rest == "name" {
			return "tool_choice.function.name"
		}
		return first
	case "tools":
		return toolPath(native)
	case "messages":
		return messagePath(native)
	}
	return native
}

// toolPath turns tools.N.input_schema into tools.N.function.parameters.
func toolPath(native string) string {
	parts := strings.SplitN(native, ".", 4)
	if len(parts) < 3 || parts[2] == "type" {
		return native
	}
	if parts[2] == "input_schema" {
		parts[2] = "parameters"
	}
	parts[2] = "function." + parts[2]
	return strings.Join(parts, ".")
}

// messagePath turns the path of a native block into the chat message's field.
func messagePath(native string) string {
	parts := strings.SplitN(native, ".", 6) // messages, N, content, N, field, rest
	if len(parts) < 5 {
		return native
	}
	message := parts[0] + "." + parts[1]
	switch field := parts[4]; {
	case field == "tool_use_id":
		return message + ".tool_call_id"
	case field == "id" || field == "name" || field == "input":
		return message + ".tool_calls"
	case field == "thinking":
		return message + ".reasoning_content"
	case field == "content" && len(parts) == 6:
		return message + ".content." + parts[5]
	case field == "content":
		return message + ".content"
	}
	return native
}
