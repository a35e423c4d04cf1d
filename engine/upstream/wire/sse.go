package wire

import (
	"bytes"
	"errors"
)

// frameBytesMax bounds one frame of a stream. A held-back call of a server that sends it at
// once is the largest there is.
const frameBytesMax = 8 << 20

// errFrameSize is a frame of more than frameBytesMax bytes.
var errFrameSize = errors.New("the upstream sent an event of more than 8 MiB")

// frames cuts a stream of server-sent events, as it arrives, into frames. Source: the
// section "Event stream interpretation" of the HTML standard, less what no server of ours
// needs: ids and retry times are read over.
type frames struct {
	rest  []byte // bytes of lines that are not complete
	event []byte
	data  []byte
	lines int // data lines of the open frame
}

// feed takes bytes and calls frame for every frame that they complete. What frame gets is
// valid until it returns. The first error of frame ends the walk and is returned. Only what
// is new is looked through for the end of a line, so that a line in many pieces costs its length.
func (f *frames) feed(b []byte, frame func(event, data []byte) error) error {
	for {
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			break
		}
		line := b[:n]
		if len(f.rest) > 0 {
			f.rest = append(f.rest, line...)
			line = f.rest
		}
		if len(line) > frameBytesMax {
			return errFrameSize
		}
		if err := f.line(bytes.TrimSuffix(line, []byte("\r")), frame); err != nil {
			return err
		}
		f.rest, b = f.rest[:0], b[n+1:]
	}
	if len(f.rest)+len(b) > frameBytesMax {
		return errFrameSize
	}
	f.rest = append(f.rest, b...)
	return nil
}

// line takes one line, without its end.
func (f *frames) line(line []byte, frame func(event, data []byte) error) error {
	if len(line) == 0 {
		if f.lines == 0 { // nothing but comments, or an empty frame
			f.event = f.event[:0]
			return nil
		}
		err := frame(f.event, f.data)
		f.event, f.data, f.lines = f.event[:0], f.data[:0], 0
		return err
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		f.event = append(f.event[:0], value...)
	case "data":
		if f.lines++; f.lines > 1 {
			f.data = append(f.data, '\n')
		}
		if f.data = append(f.data, value...); len(f.data) > frameBytesMax {
			return errFrameSize
		}
	}
	return nil
}
