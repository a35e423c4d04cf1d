package abi

// Names are what the protocols call a kind of error. The table below is the only
// place where such a name is chosen; status codes are chosen in node/server.
type Names struct {
	Messages string // error.type of the messages protocol
	Type     string // error.type of chat completions and responses
	Code     string // error.code of chat completions and responses
	Response string // error.code of a failed response, whose codes the protocol enumerates
}

var names = [kindEnd]Names{
	Internal:            {"api_error", "server_error", "internal_error", "server_error"},
	InvalidRequest:      {"invalid_request_error", "invalid_request_error", "invalid_request", "invalid_prompt"},
	ModelNotFound:       {"not_found_error", "invalid_request_error", "model_not_found", "invalid_prompt"},
	PathNotFound:        {"not_found_error", "invalid_request_error", "not_found", "invalid_prompt"},
	Unauthenticated:     {"authentication_error", "authentication_error", "unauthorized", "server_error"},
	InsufficientBalance: {"billing_error", "billing_error", "insufficient_balance", "server_error"},
	RateLimited:         {"rate_limit_error", "rate_limit_error", "rate_limited", "rate_limit_exceeded"},
	Overloaded:          {"overloaded_error", "overloaded_error", "overloaded", "server_error"},
	TooLarge:            {"request_too_large", "invalid_request_error", "request_too_large", "invalid_prompt"},
	MethodNotAllowed:    {"invalid_request_error", "invalid_request_error", "method_not_allowed", "invalid_prompt"},
	UnsupportedEncoding: {"invalid_request_error", "invalid_request_error", "unsupported_media_type", "invalid_prompt"},
	ReadTimeout:         {"invalid_request_error", "invalid_request_error", "request_timeout", "server_error"},
	Timeout:             {"timeout_error", "timeout_error", "timeout", "server_error"},
	Canceled:            {"api_error", "server_error", "canceled", "server_error"},
}

// Names returns what the protocols call the kind; one that nobody put in the table is ours.
func (k Kind) Names() *Names {
	if k < kindEnd {
		return &names[k]
	}
	return &names[Internal]
}

// tooLong are the names of a request that the context window is too small for. Agents look for the code, and then
// shorten the conversation; a failed response has it too, though the protocol does not enumerate it.
var tooLong = Names{"invalid_request_error", "invalid_request_error", "context_length_exceeded", "context_length_exceeded"}

// Names returns what the protocols call a failure of a kind.
func (d Detail) Names(k Kind) *Names {
	if k == InvalidRequest && (d.Reason == ReasonWindow || d.Reason == ReasonPrompt) {
		return &tooLong
	}
	return k.Names()
}

// AppendObject appends the error object of chat completions and responses.
func (n *Names) AppendObject(dst []byte, path, message string) []byte {
	dst = AppendEscaped(append(dst, `{"message":"`...), message)
	dst = append(append(append(dst, `","type":"`...), n.Type...), `","param":`...)
	dst = append(AppendPath(dst, path), `,"code":"`...)
	return append(append(dst, n.Code...), `"}`...)
}

// AppendPath appends the path of a field as JSON, null without one.
func AppendPath(dst []byte, path string) []byte {
	if path == "" {
		return append(dst, "null"...)
	}
	return append(AppendEscaped(append(dst, '"'), path), '"')
}
