package chat

import (
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
)

// errorWords are what sentences about the native body are made of for a client of chat completions.
var errorWords = abi.Words{AnyCall: `"required"`, NamedCall: "a named function"}

// Error writes the body of an error, or the event that ends a broken stream:
// no mark follows it, so that the stream does not look finished. The path of
// the offending field is part of the message too: people read that.
func (Translator) Error(dst []byte, in abi.ErrorInput) []byte {
	path := in.Param
	if len(in.Kept) > 0 { // the engine refused the native body
		path = chatPath(path, readKept(in.Kept))
	}
	if in.Facts.Stream {
		dst = append(dst, "data: "...)
	}
	message := abi.Located(path, in.Sentence(path, in.Msg, &errorWords))
	dst = append(in.Names(in.Kind).AppendObject(append(dst, `{"error":`...), path, message), '}')
	if in.Facts.Stream {
		dst = append(dst, "\n\n"...)
	}
	return dst
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
	case "response_format":
		if inner, found := strings.CutPrefix(rest, "json_schema."); found && k&keptObjectSchema != 0 {
			return first + "." + inner
		}
	case "tool_choice":
		if rest == "name" {
			return "tool_choice.function.name"
		}
		return first
	case "tools":
		if k&keptRenumbered != 0 {
			return first
		}
		return field.ToolPath(native)
	case "messages":
		return messagePath(native)
	}
	return native
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
