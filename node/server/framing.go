package server

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"corenode/wasm/abi"
)

// tokenByte says which bytes the name of a header is made of (RFC 9110, 5.6.2).
var tokenByte = func() (t [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[b] = true
	}
	return t
}()

// misframed looks at the headers as they were sent for what a proxy in front may
// read in another way than fasthttp does: with such a request, what one of the
// two takes for a body may be a request to the other. It returns why it is
// refused, nil for a good one.
func misframed(h *fasthttp.RequestHeader) *abi.Error {
	length, coding := false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		if line = bytes.TrimRight(bytes.TrimRight(line, "\n"), "\r"); len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			return framingError("a header is folded over two lines")
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		for _, b := range name {
			if !tokenByte[b] {
				return framingError("the name of a header has a character that HTTP does not allow in one")
			}
		}
		switch {
		case bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength)):
			length = true
		case !bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding)):
		case bytes.EqualFold(bytes.Trim(value, " \t"), []byte("chunked")):
			coding = true
		default:
			return framingError("the only Transfer-Encoding is chunked")
		}
	}
	if length && coding {
		return framingError("the request has both Content-Length and Transfer-Encoding")
	}
	return nil
}

func framingError(msg string) *abi.Error {
	return &abi.Error{Kind: abi.InvalidRequest, Op: "server.misframed", Msg: msg}
}
