package soak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"corenode/bench/protocol"
)

// pathResponses is where the third protocol is asked, which package protocol does not speak.
const pathResponses = "/v1/responses"

// ended says what is wrong with an answer that came with status 200; nil when it is whole. A stream that fails on its way
// has that status, too, and a proper end of its body: only its events tell.
func ended(path string, stream bool, body []byte) error {
	var r protocol.Reader
	switch path {
	case pathResponses:
		return responseEnded(stream, body)
	case protocol.Chat.Path():
		r.Reset(protocol.Chat, false)
	default:
		r.Reset(protocol.Messages, false)
	}
	if !stream {
		return r.Whole(body)
	}
	if _, err := r.Feed(body); err != nil {
		return err
	}
	return r.End()
}

// response is what is read of a response object, or of a body with an error in its place.
type response struct {
	Status string
	Error  struct{ Message string }
}

// event is what is read of an event of a streamed response.
type event struct {
	Type, Message string
	Response      response
}

// responseEnded is ended of a response: completed, or incomplete because its tokens were spent.
func responseEnded(stream bool, body []byte) error {
	if !stream {
		var r response
		if err := json.Unmarshal(body, &r); err != nil || r.Status == "" && r.Error.Message == "" {
			return fmt.Errorf("not the JSON of the protocol: %.200q", body)
		}
		return r.ended()
	}
	done := false
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("not the JSON of the protocol: %.200q", data)
		}
		switch e.Type {
		case "error":
			return &protocol.ServerError{Message: e.Message}
		case "response.failed", "response.completed", "response.incomplete":
			if err := e.Response.ended(); err != nil {
				return err
			}
			done = true
		}
	}
	if !done {
		return errors.New("the stream ends without response.completed or response.incomplete")
	}
	return nil
}

// ended says how a response failed; nil of one that did not.
func (r response) ended() error {
	if r.Status != "completed" && r.Status != "incomplete" {
		return &protocol.ServerError{Message: fmt.Sprintf("%s %.200s", r.Status, r.Error.Message)}
	}
	return nil
}
