package ollama

import (
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
)

// Error writes the body of an error, or the line that ends a broken stream: no
// line with done follows it. The path of the field is part of the message:
// there is nothing else.
func (Translator) Error(dst []byte, in abi.ErrorInput) []byte {
	path := in.Param
	if len(in.Kept) > 0 { // the engine refused the native body
		path = clientPath(path, readKept(in.Kept))
	}
	message := abi.Located(path, in.Sentence(path, in.Msg, &abi.Words{}))
	dst = append(abi.AppendEscaped(append(dst, `{"error":"`...), message), `"}`...)
	if in.Facts.Stream {
		dst = append(dst, '\n')
	}
	return dst
}

// clientPath turns the path of a field in the native body into the path of what
// it was made of.
func clientPath(native string, k kept) string {
	first, rest, _ := strings.Cut(native, ".")
	switch first {
	case "max_tokens":
		return "options.num_predict"
	case "repetition_penalty":
		return "options.repeat_penalty"
	case "stop_sequences":
		return strings.TrimSuffix("options.stop."+rest, ".")
	case "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty":
		return "options." + native
	case "response_format":
		return "format"
	case "thinking":
		return "think"
	case "tools":
		return field.ToolPath(native)
	case "messages":
		return messagePath(native, k)
	}
	return native
}

// messagePath turns the path of a native block into the message's field.
func messagePath(native string, k kept) string {
	parts := strings.SplitN(native, ".", 6) // messages, N, content, N, field, rest
	if k&keptGenerate != 0 {
		if len(parts) > 1 && parts[1] == "0" && k&keptSystem != 0 {
			return "system"
		}
		return "prompt"
	}
	if len(parts) < 5 {
		return native
	}
	message := parts[0] + "." + parts[1]
	switch parts[4] {
	case "tool_use_id":
		return message + ".tool_call_id"
	case "id", "name", "input":
		return message + ".tool_calls"
	case "thinking":
		return message + ".thinking"
	}
	return message + ".content"
}
