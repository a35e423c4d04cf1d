package extensions

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// What a translator writes goes to clients, so it is looked at before, as
// cheaply as that can be: see checkFrames and checkBody.
var (
	errNoFrames    = errors.New("there is not one server-sent event")
	errFrameBegin  = errors.New(`it does not begin with a field of a server-sent event: data, event, id, retry or a comment`)
	errFrameEnd    = errors.New("it does not end with the empty line that ends a server-sent event")
	errNotUTF8     = errors.New("it is not UTF-8; a rune may not continue in the next group")
	errBodyNotJSON = errors.New("the body is not JSON")
	errNoObject    = errors.New("the body is no JSON object, which begins with {")
)

// frameFields begin the lines of server-sent events.
var frameFields = [...]string{"data:", "event:", ":", "id:", "retry:"}

// checkFrames checks the bytes of one event group: none, or whole server-sent
// events in UTF-8. That the first line is a field tells events from other text;
// what the fields hold is the module's.
func checkFrames(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if !beginsFrame(b) {
		return errFrameBegin
	}
	if !bytes.HasSuffix(b, []byte("\n\n")) && !bytes.HasSuffix(b, []byte("\r\n\r\n")) {
		return errFrameEnd
	}
	if !utf8.Valid(b) {
		return errNotUTF8
	}
	return nil
}

func beginsFrame(b []byte) bool {
	for _, field := range frameFields {
		if len(b) >= len(field) && string(b[:len(field)]) == field {
			return true
		}
	}
	return false
}

// checkRequest checks the body of a request that a translator made. What is in it
// the node checks like what a client sends.
func checkRequest(b []byte) error {
	if len(b) > 0 && b[0] != '{' {
		return errNoObject
	}
	return checkBody(b)
}

// checkBody checks the body of an answer that is no stream.
func checkBody(b []byte) error {
	switch {
	case !utf8.Valid(b):
		return errNotUTF8
	case !json.Valid(b):
		return errBodyNotJSON
	}
	return nil
}
