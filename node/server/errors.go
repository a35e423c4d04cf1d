package server

import (
	"errors"

	"corenode/engine/messages"
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

// Statuses in logs only: nobody reads an answer.
const (
	statusClientClosed = 499
	statusUnanswered   = 598 // the connection was closed by us, without an answer
)

// statuses are those of each kind. This table, statusOf and the manifests of modules are
// the only places where a status code is chosen; what protocols call a kind is in abi.Names.
var statuses = map[abi.Kind]int{
	abi.Internal:            500,
	abi.InvalidRequest:      400,
	abi.ModelNotFound:       404,
	abi.PathNotFound:        404,
	abi.Unauthenticated:     401,
	abi.InsufficientBalance: 402,
	abi.RateLimited:         429,
	abi.Overloaded:          503,
	abi.TooLarge:            413,
	abi.MethodNotAllowed:    405,
	abi.UnsupportedEncoding: 415,
	abi.ReadTimeout:         408,
	abi.Timeout:             504,
	abi.Canceled:            statusClientClosed,
}

// statusOf returns the status of a kind; one that nobody put in the table is ours.
func (f family) statusOf(k abi.Kind) int {
	if f == familyChat && k == abi.ModelNotFound { // a parameter like any other
		return statuses[abi.InvalidRequest]
	}
	if status, ok := statuses[k]; ok {
		return status
	}
	return statuses[abi.Internal]
}

// appendError writes the error body of a family. The path of the offending field is part
// of the message, as in the messages envelope a program finds no more than messages.Details.
func (f family) appendError(dst []byte, e *abi.Error) []byte {
	names, message := e.Names(e.Kind), abi.Located(e.Param, e.Message())
	if f == familyChat {
		return append(names.AppendObject(append(dst, `{"error":`...), e.Param, message), '}')
	}
	dst = append(append(append(dst, `{"type":"error","error":{"type":"`...), names.Messages...), '"')
	if f == familyModels {
		dst = append(append(append(dst, `,"code":"`...), names.Code...), `","param":`...)
		dst = abi.AppendPath(dst, e.Param)
	}
	dst = append(abi.AppendEscaped(append(dst, `,"message":"`...), message), '"')
	if details, ok := errors.AsType[messages.Details](e); ok {
		dst = append(append(dst, `,"details":`...), details...)
	}
	return append(dst, "}}"...)
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
