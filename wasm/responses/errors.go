package responses

import (
	"strings"

	"corenode/wasm/abi"
)

// errorWords are what sentences about the native body are made of for a client of responses.
var errorWords = abi.Words{AnyCall: `"required"`, NamedCall: "a named tool"}

// streamFail is a failure as a client of this protocol sees it.
type streamFail struct {
	names   *abi.Names
	message string
	param   string
}

// failure turns a native failure into one that names fields as the client
// knows them. What the translator itself refused, before anything was kept,
// names them so already.
func failure(in abi.ErrorInput) streamFail {
	param := in.Param
	if len(in.Kept) > 0 {
		param = translatedPath(param, parseKept(in.Kept).flags)
	}
	return streamFail{in.Names(in.Kind), abi.Located(param, in.Sentence(param, in.Msg, &errorWords)), param}
}

// translatedPath is the path in the request of what went wrong at a path of
// the native body. Messages do not keep their numbers: items merge into them.
func translatedPath(path string, flags uint8) string {
	head, rest, _ := strings.Cut(path, ".")
	switch head {
	case "max_tokens":
		return "max_output_tokens"
	case "stop_sequences":
		if flags&keptStopText != 0 {
			return "stop"
		}
		return join("stop", rest)
	case "messages":
		return "input"
	case "system":
		return "instructions"
	case "thinking":
		return "reasoning"
	case "tool_choice":
		if rest != "name" {
			return head
		}
	case "response_format":
		return join("text.format", strings.TrimPrefix(rest, "json_schema."))
	case "tools":
		number, field, deep := strings.Cut(rest, ".")
		switch {
		case flags&keptRenumbered != 0:
			return "tools"
		case !deep:
			return path
		case field == "input_schema" || strings.HasPrefix(field, "input_schema."):
			field = "parameters" + field[len("input_schema"):]
		}
		return "tools." + number + "." + field
	}
	return path
}

// Error appends the body of an error. Of a stream it appends the frames that end
// it as broken: the failed response, which agents read, and an error event that
// official clients raise because its data has a member named error. What was
// streamed of the answer stays in the failed response.
func (Translator) Error(dst []byte, in abi.ErrorInput) []byte {
	fail := failure(in)
	if !in.Facts.Stream {
		dst = append(dst, `{"error":`...)
		return append(fail.names.AppendObject(dst, fail.param, fail.message), '}')
	}
	w := writer{dst: dst, facts: in.Facts, state: parseState(in.State), history: in.History, kept: in.Kept}
	if w.state.flags&flagBegun == 0 {
		w.whole("response.created", outcome{status: inProgress})
	}
	w.whole("response.failed", outcome{status: failed, err: &fail})
	w.frame("error")
	w.dst = append(w.dst, `,"code":"`...)
	w.dst = append(w.dst, fail.names.Code...)
	w.dst = append(w.dst, `","message":"`...)
	w.dst = abi.AppendEscaped(w.dst, fail.message)
	w.dst = abi.AppendPath(append(w.dst, `","param":`...), fail.param)
	w.dst = append(w.dst, `,"error":`...)
	w.dst = fail.names.AppendObject(w.dst, fail.param, fail.message)
	w.close()
	return w.dst
}

// appendObject appends the error of a failed response.
func (e *streamFail) appendObject(dst []byte) []byte {
	dst = append(dst, `{"code":"`...)
	dst = append(dst, e.names.Response...)
	dst = append(dst, `","message":"`...)
	dst = abi.AppendEscaped(dst, e.message)
	return append(dst, `"}`...)
}
