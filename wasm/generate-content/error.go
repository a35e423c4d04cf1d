package generatecontent

import (
	"strconv"
	"strings"

	"corenode/wasm/abi"
)

// errorWords are what sentences about the native body are made of here.
var errorWords = abi.Words{AnyCall: "mode ANY", NamedCall: "mode ANY with one allowed function"}

// names are the statuses of the protocol, and the codes that go with them in a
// stream, which has no status.
var names = [...]struct {
	code   int
	status string
}{
	abi.Internal: {500, "INTERNAL"}, abi.InvalidRequest: {400, "INVALID_ARGUMENT"}, abi.ModelNotFound: {404, "NOT_FOUND"},
	abi.PathNotFound: {404, "NOT_FOUND"}, abi.Unauthenticated: {401, "UNAUTHENTICATED"},
	abi.InsufficientBalance: {403, "PERMISSION_DENIED"}, abi.RateLimited: {429, "RESOURCE_EXHAUSTED"},
	abi.Overloaded: {503, "UNAVAILABLE"}, abi.TooLarge: {413, "INVALID_ARGUMENT"}, abi.MethodNotAllowed: {405, "UNIMPLEMENTED"},
	abi.UnsupportedEncoding: {415, "INVALID_ARGUMENT"}, abi.ReadTimeout: {408, "DEADLINE_EXCEEDED"},
	abi.Timeout: {504, "DEADLINE_EXCEEDED"}, abi.Canceled: {499, "CANCELLED"},
}

// Error writes the body of an error, or the line that ends a broken stream. It is bare in a stream of
// events, too: not every client looks for an error in what has data before it.
func (Translator) Error(dst []byte, in abi.ErrorInput) []byte {
	kind := in.Kind
	if int(kind) >= len(names) {
		kind = abi.Internal
	}
	path, msg := in.Param, in.Msg
	if len(in.Kept) > 0 { // the engine refused the native body
		path = clientPath(path, readKept(in.Kept))
	} else { // Request did, and its path stands in the message
		msg = strings.TrimPrefix(msg, path+": ")
	}
	path = bracketed(path)
	sentence := in.Sentence(path, msg, &errorWords)
	code := in.Status
	if in.Facts.Stream {
		code = names[kind].code
	}
	dst = strconv.AppendInt(append(dst, `{"error":{"code":`...), int64(code), 10)
	dst = abi.AppendEscaped(append(dst, `,"message":"`...), abi.Located(path, sentence))
	dst = append(append(append(dst, `","status":"`...), names[kind].status...), '"')
	switch {
	case in.Reason == abi.ReasonWait:
		dst = append(dst, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		dst = append(appendSeconds(dst, max(in.Value, 0)), `"}]`...)
	case kind == abi.InvalidRequest && path != "":
		dst = append(dst, `,"details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"`...)
		dst = abi.AppendEscaped(dst, path)
		dst = abi.AppendEscaped(append(dst, `","description":"`...), sentence)
		dst = append(dst, `"}]}]`...)
	}
	dst = append(dst, "}}"...)
	if in.Facts.Stream {
		dst = append(dst, '\n')
	}
	return dst
}

// appendSeconds writes milliseconds as the protocol has a duration: 86s, 1.050s.
func appendSeconds(dst []byte, ms int64) []byte {
	dst = strconv.AppendInt(dst, ms/1000, 10)
	if rest := ms % 1000; rest != 0 {
		dst = append(dst, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return append(dst, 's')
}

// configNames are the fields of generationConfig by their native names.
var configNames = map[string]string{
	"max_tokens": "maxOutputTokens", "temperature": "temperature", "top_p": "topP", "top_k": "topK", "seed": "seed",
	"presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty", "stop_sequences": "stopSequences",
	"thinking": "thinkingConfig", "output_config": "thinkingConfig",
}

// clientPath turns the path of a field in the native body into the path of what
// it was made of.
func clientPath(native string, k kept) string {
	first, rest, more := strings.Cut(native, ".")
	if name, is := configNames[first]; is {
		native = "generationConfig." + name
		if more && first == "stop_sequences" {
			native += "." + rest
		}
		return native
	}
	switch first {
	case "response_format":
		return "generationConfig." + formatPath(rest, k)
	case "tool_choice":
		return "toolConfig.functionCallingConfig"
	case "tools":
		return toolPath(native, k)
	case "messages":
		return contentPath(strings.SplitN(native, ".", 6), k)
	case "system":
		return "systemInstruction"
	}
	return native
}

func formatPath(rest string, k kept) string {
	name := "responseSchema"
	if k&keptJSONSchema != 0 {
		name = "responseJsonSchema"
	}
	inside, is := strings.CutPrefix(rest, "json_schema.schema.")
	switch {
	case is:
		return name + "." + inside
	case strings.HasPrefix(rest, "json_schema"):
		return name
	}
	return "responseMimeType"
}

// toolPath turns tools.N.input_schema into that of the Nth declaration.
func toolPath(native string, k kept) string {
	parts := strings.SplitN(native, ".", 4)
	if k&keptRegrouped != 0 || len(parts) < 3 {
		return "tools"
	}
	path := "tools.0.functionDeclarations." + parts[1] + "."
	if parts[2] != "input_schema" {
		return path + parts[2]
	}
	if path += "parameters"; len(parts) > 3 {
		path += "." + parts[3]
	}
	return path
}

// contentPath turns the path of a native block, cut at its points, into that of
// its part: messages, N, content, N, field, rest.
func contentPath(native []string, k kept) string {
	if len(native) < 2 || k&keptJoined != 0 {
		return "contents"
	}
	path := "contents." + native[1]
	if len(native) < 4 || k&keptMoved != 0 {
		return path
	}
	path += ".parts." + native[3]
	if len(native) < 5 {
		return path
	}
	switch field := native[4]; field {
	case "text", "thinking":
		return path + ".text"
	case "tool_use_id":
		return path + ".functionResponse.id"
	case "content":
		return path + ".functionResponse.response"
	case "id", "name":
		return path + ".functionCall." + field
	case "input":
		if path += ".functionCall.args"; len(native) > 5 {
			path += "." + native[5]
		}
	}
	return path
}

// bracketed writes the numbers of a path as the protocol does: contents[3].parts[0].
func bracketed(path string) string {
	out := make([]byte, 0, len(path)+8)
	for i, part := range strings.Split(path, ".") {
		if part != "" && i > 0 && strings.Trim(part, "0123456789") == "" {
			out = append(append(append(out, '['), part...), ']')
			continue
		}
		if i > 0 {
			out = append(out, '.')
		}
		out = append(out, part...)
	}
	return string(out)
}
