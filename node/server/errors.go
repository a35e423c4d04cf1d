package server

import (
	"strings"

	"corenode/wasm/abi"
)

// family is the protocol whose conventions a path follows: error format and
// rate-limit headers.
type family uint8

const (
	familyMessages family = iota
	familyChat
	// familyModels is read by both kinds of SDK: its errors satisfy both.
	familyModels
)

// wire is how one kind of error looks in each protocol. This table is the only
// place where a status code or an error type is chosen.
type wire struct {
	status       int    // messages and models
	messagesType string // error.type of the messages envelope
	chatStatus   int
	chatType     string
	chatCode     string
}

// Statuses in logs only: nobody reads an answer.
const (
	statusClientClosed = 499
	statusUnanswered   = 598 // the connection was closed by us, without an answer
)

var wires = map[abi.Kind]wire{
	abi.Internal:            {500, "api_error", 500, "server_error", "internal_error"},
	abi.InvalidRequest:      {400, "invalid_request_error", 400, "invalid_request_error", "invalid_request"},
	abi.ModelNotFound:       {404, "not_found_error", 400, "invalid_request_error", "model_not_found"},
	abi.PathNotFound:        {404, "not_found_error", 404, "invalid_request_error", "not_found"},
	abi.Unauthenticated:     {401, "authentication_error", 401, "authentication_error", "unauthorized"},
	abi.InsufficientBalance: {402, "billing_error", 402, "billing_error", "insufficient_balance"},
	abi.RateLimited:         {429, "rate_limit_error", 429, "rate_limit_error", "rate_limited"},
	abi.Overloaded:          {503, "overloaded_error", 503, "overloaded_error", "overloaded"},
	abi.TooLarge:            {413, "request_too_large", 413, "invalid_request_error", "request_too_large"},
	abi.MethodNotAllowed:    {405, "invalid_request_error", 405, "invalid_request_error", "method_not_allowed"},
	abi.UnsupportedEncoding: {415, "invalid_request_error", 415, "invalid_request_error", "unsupported_media_type"},
	abi.ReadTimeout:         {408, "invalid_request_error", 408, "invalid_request_error", "request_timeout"},
	abi.Timeout:             {504, "timeout_error", 504, "timeout_error", "timeout"},
	abi.Canceled:            {statusClientClosed, "api_error", statusClientClosed, "server_error", "canceled"},
}

// wireOf returns the row of a kind; one that nobody put in the table is ours.
func wireOf(k abi.Kind) wire {
	if w, ok := wires[k]; ok {
		return w
	}
	return wires[abi.Internal]
}

func (f family) statusOf(k abi.Kind) int {
	if f == familyChat {
		return wireOf(k).chatStatus
	}
	return wireOf(k).status
}

// appendError writes the error body of a family. The path of the offending
// field is part of the message: the messages envelope has no other room for it.
func (f family) appendError(dst []byte, e *abi.Error) []byte {
	w := wireOf(e.Kind)
	message := e.Msg
	if e.Param != "" && !strings.HasPrefix(e.Msg, e.Param) {
		message = e.Param + ": " + e.Msg
	}
	switch f {
	case familyChat:
		dst = appendString(append(dst, `{"error":{"message":`...), message)
		dst = append(append(append(dst, `,"type":"`...), w.chatType...), `","param":`...)
		dst = appendParam(dst, e.Param)
		return append(append(append(dst, `,"code":"`...), w.chatCode...), `"}}`...)
	case familyModels:
		dst = append(append(append(dst, `{"type":"error","error":{"type":"`...), w.messagesType...), `","code":"`...)
		dst = appendParam(append(append(dst, w.chatCode...), `","param":`...), e.Param)
	default:
		dst = append(append(append(dst, `{"type":"error","error":{"type":"`...), w.messagesType...), '"')
	}
	dst = appendString(append(dst, `,"message":`...), message)
	return append(dst, "}}"...)
}

// appendParam writes the path of a field, null without one.
func appendParam(dst []byte, param string) []byte {
	if param == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, param)
}

// appendString writes a JSON string; bytes that are no UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	return append(abi.AppendEscaped(append(dst, '"'), s), '"')
}

// appendBroken writes the frame that ends a broken stream.
func (f family) appendBroken(dst []byte, e *abi.Error) []byte {
	if f == familyMessages {
		dst = append(dst, "event: error\n"...)
	}
	dst = f.appendError(append(dst, "data: "...), e)
	return append(dst, "\n\n"...)
}

// gatewayTimeout is the body of a 504: HTML, as a gateway in front would send it.
const gatewayTimeout = `<!DOCTYPE html>
<html><head><title>504 Gateway Timeout</title></head>
<body><h1>504 Gateway Timeout</h1><p>The request took too long. Long requests should stream.</p></body></html>
`
