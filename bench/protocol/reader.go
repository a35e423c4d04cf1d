package protocol

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
)

// bytesMax bounds one line of a stream and one body that is not a stream.
const bytesMax = 16 << 20

// Usage is what a reply says about its tokens.
type Usage struct {
	Input  int // of the prompt, all, those from a cache too
	Cached int // of them, those that were taken from a cache
	Output int
	Known  bool // the reply has usage
	// CachedKnown says that Cached was told: many servers say nothing of a cache.
	CachedKnown bool
}

// ServerError is an error that a server reports within a reply that began well.
type ServerError struct{ Message string }

// Error quotes the message of the server.
func (e *ServerError) Error() string { return "the server reports: " + e.Message }

// Reader reads one reply after another. It keeps its buffers; Reset begins.
type Reader struct {
	protocol Protocol
	keepText bool

	text    []byte
	outputs int
	events  int
	done    bool
	tokens  tokens
	failure *ServerError

	line []byte // the begin of a line whose end has not come yet
	name []byte // of the event that is being read
	data []byte
	some bool // the event has data
}

// tokens are the members of usage as servers write them, -1 for those not seen.
type tokens struct{ input, read, written, output, cachedBy int }

// Reset makes the reader ready for a reply. keepText keeps the answer's text.
func (r *Reader) Reset(p Protocol, keepText bool) {
	*r = Reader{protocol: p, keepText: keepText, tokens: tokens{-1, -1, -1, -1, -1},
		text: r.text[:0], line: r.line[:0], name: r.name[:0], data: r.data[:0]}
}

// Text is the answer without thinking and tool calls, as the inside of a JSON
// string; valid until the next Reset.
func (r *Reader) Text() []byte { return r.text }

// Usage returns what the reply said so far; later events replace earlier ones.
func (r *Reader) Usage() Usage {
	t := r.tokens
	u := Usage{Known: t.input >= 0 || t.output >= 0, Input: max(t.input, 0), Cached: max(t.read, 0), Output: max(t.output, 0),
		CachedKnown: t.read >= 0}
	if r.protocol == Messages { // whose input_tokens are those that no cache had
		u.Input += max(t.read, 0) + max(t.written, 0)
	} else if t.read < 0 {
		u.Cached, u.CachedKnown = max(t.cachedBy, 0), t.cachedBy >= 0
	}
	return u
}

// Feed reads the next piece of an event stream and returns how many events with
// output it completed. Output is a non-empty piece of text, of thinking or of a
// tool call.
func (r *Reader) Feed(piece []byte) (outputs int, err error) {
	before := r.outputs
	for len(piece) > 0 && err == nil {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			if len(r.line)+len(piece) > bytesMax {
				return 0, fmt.Errorf("a line of more than %d bytes", bytesMax)
			}
			r.line = append(r.line, piece...)
			break
		}
		line := piece[:end]
		if len(r.line) > 0 {
			r.line = append(r.line, line...)
			line = r.line
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		err = r.readLine(line)
		r.line, piece = r.line[:0], piece[end+1:]
	}
	return r.outputs - before, err
}

// End says what is wrong with a stream that ended; nil when it is complete.
func (r *Reader) End() error {
	switch {
	case r.failure != nil:
		return r.failure
	case !r.done && r.protocol == Chat:
		return errors.New("the stream ends without [DONE]")
	case !r.done:
		return errors.New("the stream ends without message_stop")
	}
	return nil
}

// Events is how many events of a stream had data so far, whatever was in them.
func (r *Reader) Events() int { return r.events }

// Done says that the end of the stream was read; nothing of use follows.
func (r *Reader) Done() bool { return r.done }

func (r *Reader) readLine(line []byte) error {
	if len(line) == 0 {
		return r.dispatch()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		if r.some {
			r.data = append(r.data, '\n')
		}
		if len(r.data)+len(value) > bytesMax {
			return fmt.Errorf("an event of more than %d bytes", bytesMax)
		}
		r.data, r.some = append(r.data, value...), true
	case "event":
		r.name = append(r.name[:0], value...)
	case "error": // a field of some servers' own
		r.fail(value)
	}
	return nil
}

// dispatch reads an event that is whole.
func (r *Reader) dispatch() error {
	data, some, name := r.data, r.some, r.name
	r.data, r.some, r.name = r.data[:0], false, r.name[:0]
	if !some {
		return nil
	}
	r.events++
	if r.protocol == Chat {
		if string(data) == "[DONE]" {
			r.done = true
			return nil
		}
		return r.readChunk(data)
	}
	if string(name) == "error" {
		r.fail(data)
		return nil
	}
	return r.readEvent(data)
}

// fail keeps the first error that the server reports.
func (r *Reader) fail(what []byte) {
	if r.failure == nil {
		r.failure = &ServerError{Message: fmt.Sprintf("%.300s", what)}
	}
}

// output counts one event with output, and keeps its text when it is an answer's.
func (r *Reader) output(v gjson.Result, answer bool) {
	if v.Type != gjson.String || v.Str == "" {
		return
	}
	r.outputs++
	if answer && r.keepText {
		r.text = append(r.text, v.Raw[1:len(v.Raw)-1]...)
	}
}

// replace takes a count that is one: null and the like say nothing.
func replace(to *int, v gjson.Result) {
	const countMax = 1 << 40
	if v.Type == gjson.Number && v.Num >= 0 {
		*to = int(min(v.Num, countMax))
	}
}

// members reads an object that is all of a text.
func members(text []byte, read func(key string, v gjson.Result)) error {
	v := gjson.ParseBytes(text)
	if !gjson.ValidBytes(text) || !v.IsObject() {
		return malformed(text)
	}
	each(v, read)
	return nil
}

// each reads the members of an object or the elements of an array, and nothing of another value.
func each(v gjson.Result, read func(key string, v gjson.Result)) {
	if v.IsObject() || v.IsArray() {
		v.ForEach(func(key, v gjson.Result) bool {
			read(key.Str, v)
			return true
		})
	}
}

func malformed(data []byte) error { return fmt.Errorf("not the JSON of the protocol: %.200q", data) }

// Whole reads a reply that is not streamed.
func (r *Reader) Whole(body []byte) error {
	var err error
	switch r.protocol {
	case Chat:
		err = r.readChunk(body)
	case Count:
		err = r.readCount(body)
	default:
		err = r.readMessage(body)
	}
	switch {
	case err != nil:
		return err
	case r.failure != nil:
		return r.failure
	case !r.done:
		return malformed(body)
	}
	return nil
}
