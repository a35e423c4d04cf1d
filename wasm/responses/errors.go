package responses

import (
	"strings"

	"corenode/wasm/abi"
)

// wireError is how a kind of error is named: in bodies, and in the error of a
// failed response, whose codes the protocol enumerates.
type wireError struct{ kind, code, response string }

var wireErrors = map[abi.Kind]wireError{
	abi.Internal:            {"server_error", "internal_error", "server_error"},
	abi.InvalidRequest:      {"invalid_request_error", "invalid_request", "invalid_prompt"},
	abi.ModelNotFound:       {"invalid_request_error", "model_not_found", "invalid_prompt"},
	abi.PathNotFound:        {"invalid_request_error", "not_found", "invalid_prompt"},
	abi.Unauthenticated:     {"authentication_error", "unauthorized", "server_error"},
	abi.InsufficientBalance: {"billing_error", "insufficient_balance", "server_error"},
	abi.RateLimited:         {"rate_limit_error", "rate_limited", "rate_limit_exceeded"},
	abi.Overloaded:          {"overloaded_error", "overloaded", "server_error"},
	abi.TooLarge:            {"invalid_request_error", "request_too_large", "invalid_prompt"},
	abi.MethodNotAllowed:    {"invalid_request_error", "method_not_allowed", "invalid_prompt"},
	abi.UnsupportedEncoding: {"invalid_request_error", "unsupported_media_type", "invalid_prompt"},
	abi.ReadTimeout:         {"invalid_request_error", "request_timeout", "server_error"},
	abi.Timeout:             {"timeout_error", "timeout", "server_error"},
	abi.Canceled:            {"server_error", "canceled", "server_error"},
}

// streamFail is a failure as a client of this protocol sees it.
type streamFail struct {
	wire    wireError
	message string
	param   string
}

// failure turns a native failure into one that names fields as the client
// knows them. What the translator itself refused, before anything was kept,
// names them so already.
func failure(in abi.ErrorInput) streamFail {
	wire, known := wireErrors[in.Kind]
	if !known {
		wire = wireErrors[abi.Internal]
	}
	param, msg := in.Param, in.Msg
	if len(in.Kept) > 0 {
		param = translatedPath(param, parseKept(in.Kept).flags&keptRenumbered != 0)
		msg = translatedWords(strings.TrimPrefix(msg, in.Param+": "), in.Param, param)
	}
	if param != "" && !strings.HasPrefix(msg, param) {
		msg = param + ": " + msg
	}
	return streamFail{wire: wire, message: msg, param: param}
}

// translatedWords turns what the engine says of a field of the native body into
// the words of the client. Where in that body it stands would only mislead: the
// client never saw it.
func translatedWords(msg, native, path string) string {
	if rest, broken := strings.CutPrefix(msg, "the body is not valid JSON: "); broken {
		msg, _, _ = strings.Cut(rest, " at byte ")
	}
	switch native {
	case "max_tokens":
		return strings.ReplaceAll(msg, native, path)
	case "tool_choice":
		return strings.NewReplacer(`"any"`, `"required"`, `"tool"`, "a named tool").Replace(msg)
	}
	return msg
}

// translatedPath is the path in the request of what went wrong at a path of
// the native body. Messages do not keep their numbers: items merge into them.
func translatedPath(path string, renumbered bool) string {
	head, rest, _ := strings.Cut(path, ".")
	switch head {
	case "max_tokens":
		return "max_output_tokens"
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
		case rest == "" || renumbered:
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
		return append(fail.appendBody(dst), '}')
	}
	w := writer{dst: dst, facts: in.Facts, state: parseState(in.State), history: in.History, kept: in.Kept}
	if w.state.flags&flagBegun == 0 {
		w.state = state{flags: flagBegun}
		w.whole("response.created", outcome{status: inProgress})
	}
	w.whole("response.failed", outcome{status: failed, err: &fail})
	w.frame("error")
	w.dst = append(w.dst, `,"code":"`...)
	w.dst = append(w.dst, fail.wire.code...)
	w.dst = append(w.dst, `","message":"`...)
	w.dst = abi.AppendEscaped(w.dst, fail.message)
	w.dst = append(w.dst, `","param":`...)
	w.dst = fail.appendParam(w.dst)
	w.dst = append(w.dst, `,"error":`...)
	w.dst = fail.appendBody(w.dst)
	w.close()
	return w.dst
}

// appendBody appends the error object of a body, or of an error event.
func (e *streamFail) appendBody(dst []byte) []byte {
	dst = append(dst, `{"message":"`...)
	dst = abi.AppendEscaped(dst, e.message)
	dst = append(dst, `","type":"`...)
	dst = append(dst, e.wire.kind...)
	dst = e.appendParam(append(dst, `","param":`...))
	dst = append(dst, `,"code":"`...)
	dst = append(dst, e.wire.code...)
	return append(dst, `"}`...)
}

func (e *streamFail) appendParam(dst []byte) []byte {
	if e.param == "" {
		return append(dst, "null"...)
	}
	return append(abi.AppendEscaped(append(dst, '"'), e.param), '"')
}

// appendObject appends the error of a failed response.
func (e *streamFail) appendObject(dst []byte) []byte {
	dst = append(dst, `{"code":"`...)
	dst = append(dst, e.wire.response...)
	dst = append(dst, `","message":"`...)
	dst = abi.AppendEscaped(dst, e.message)
	return append(dst, `"}`...)
}
