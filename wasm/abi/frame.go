package abi

import (
	"encoding/binary"
	"unicode/utf8"
)

// An event frame is kind u8, block or stop u8, index u16, payload length u32,
// payload. Texts in it are JSON-escaped already: they stand between quotes as
// they are. The payload of a kind:
//
//	EventStart       usage: uncached, cache read, cache write, output, reasoning, i64 each
//	EventBlockStart  of a tool use: length of the id u16, id, name; else empty
//	EventDelta       text
//	EventBlockStop   empty
//	EventEnd         usage as above, then the stop sequence
//	EventElapsed     total, load, prompt, generation, i64 each, in nanoseconds
//
// EventError has no frame: a failure is an OpError. A guest skips kinds it
// does not know.
const frameHeader = 8

// Frame is one decoded event frame. Payload aliases what it was read from.
type Frame struct {
	Kind    EventKind
	Block   BlockKind  // block start, delta, block stop
	Stop    StopReason // end
	Index   int
	Payload []byte
}

// Frames is a sequence of event frames, read from the front.
type Frames []byte

// Next takes one frame off; false at the end and on a malformed rest.
func (f *Frames) Next() (Frame, bool) {
	b := *f
	if len(b) < frameHeader {
		return Frame{}, false
	}
	n := Uint32(b, 4)
	if uint64(n) > uint64(len(b)-frameHeader) {
		return Frame{}, false
	}
	end := frameHeader + int(n)
	*f = b[end:]
	return Frame{
		Kind: EventKind(b[0]), Block: BlockKind(b[1]), Stop: StopReason(b[1]),
		Index: int(binary.LittleEndian.Uint16(b[2:])), Payload: b[frameHeader:end:end],
	}, true
}

// usageBytes and elapsedBytes are the sizes of what frames begin with.
const (
	usageBytes   = 5 * 8
	elapsedBytes = 4 * 8
)

// Usage is the usage of a start or end frame; zero where there is none.
func (f Frame) Usage() (u Usage) {
	u.parse(f.Payload, 0)
	return u
}

// Elapsed is what an elapsed frame says; zero where there is none.
func (f Frame) Elapsed() (e Elapsed) {
	if f.Kind == EventElapsed {
		e.parse(f.Payload, 0)
	}
	return e
}

// StopSequence is the escaped stop sequence of an end frame.
func (f Frame) StopSequence() []byte {
	if len(f.Payload) < usageBytes {
		return nil
	}
	return f.Payload[usageBytes:]
}

// Tool is the escaped id and name of a tool use's start frame.
func (f Frame) Tool() (id, name []byte) {
	if len(f.Payload) < 2 {
		return nil, nil
	}
	n := int(binary.LittleEndian.Uint16(f.Payload))
	if n > len(f.Payload)-2 {
		return nil, nil
	}
	return f.Payload[2 : 2+n], f.Payload[2+n:]
}

// AppendFrame encodes one event, an end that has Elapsed as two frames. EventError
// is not among them.
func AppendFrame(dst []byte, e *Event) []byte {
	mark := byte(e.Block)
	if e.Kind == EventEnd {
		mark = byte(e.Stop)
		if t := e.Elapsed; t != nil {
			dst = append(dst, byte(EventElapsed), 0, 0, 0, elapsedBytes, 0, 0, 0)
			dst = t.append(dst)
		}
	}
	start := len(dst)
	dst = append(dst, byte(e.Kind), mark, byte(e.Index), byte(e.Index>>8), 0, 0, 0, 0)
	switch e.Kind {
	case EventStart:
		dst = e.Usage.append(dst)
	case EventBlockStart:
		if e.Block == BlockToolUse {
			at := len(dst)
			dst = AppendEscaped(append(dst, 0, 0), e.ID)
			binary.LittleEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
			dst = AppendEscaped(dst, e.Name)
		}
	case EventDelta:
		dst = AppendEscaped(dst, e.Text)
	case EventEnd:
		dst = AppendEscaped(e.Usage.append(dst), e.StopSequence)
	}
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(len(dst)-start-frameHeader))
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendEscaped appends s as it stands between the quotes of a JSON string
// (RFC 8259): what must be escaped is, and what some clients take for the end of
// a line (see separates). Bytes that are no UTF-8 become U+FFFD.
func AppendEscaped(dst []byte, s string) []byte {
	i := 0
	for i < len(s) && s[i] < utf8.RuneSelf && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	if i == len(s) {
		return append(dst, s...)
	}
	clean := 0 // s[clean:i] needs no change
	for i < len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				dst = append(append(dst, s[clean:i]...), "\uFFFD"...)
				clean = i + 1
			case separates(r):
				dst = appendEscape(append(dst, s[clean:i]...), r)
				clean = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[clean:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = appendEscape(dst, rune(c))
		}
		i++
		clean = i
	}
	return append(dst, s[clean:]...)
}

// separates says of a character that JSON allows in a string as it is whether it ends a
// line nevertheless: it does for clients that cut a stream with Python's str.splitlines.
func separates(r rune) bool { return r == 0x85 || r&^1 == 0x2028 }

// appendEscape appends the escape of a character of one UTF-16 unit.
func appendEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// AppendOneLine appends valid JSON, or a text that is escaped already, as one line for
// every client: ends of lines between values become spaces, and those that a string may
// hold as they are become escapes.
func AppendOneLine(dst, text []byte) []byte {
	clean := 0 // text[clean:i] needs no change
	for i := 0; i < len(text); {
		c := text[i]
		if c != '\n' && c != '\r' && c != 0xC2 && c != 0xE2 { // what the UTF-8 of the others begins with
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if c < utf8.RuneSelf {
			dst = append(append(dst, text[clean:i]...), ' ')
			clean = i + n
		} else if separates(r) {
			dst = appendEscape(append(dst, text[clean:i]...), r)
			clean = i + n
		}
		i += n
	}
	return append(dst, text[clean:]...)
}
