package output

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Frame is how models of a family write calls: names, and arguments as JSON, between marks of their
// own. Marks may be control tokens; the engine gives the text of those within a call to the parser all the same.
type Frame struct {
	// Open begins calls: what <tool_call> is in other forms.
	Open string
	// Before and Arguments stand before the name of each call and between it and its arguments; After
	// stands behind those.
	Before, Arguments, After string
	// Between stands between calls; blanks are read there in any case.
	Between string
	// Close ends the calls; "" where the end of the arguments does.
	Close string
	// List says that the calls are an array of JSON objects.
	List bool
	// Numbered says that a colon and a number follow each name.
	Numbered bool
	// Identified is a mark behind the name, or in a list the member behind the arguments, that is followed by the
	// call's id of nine letters and digits; "" without one. In a list it may be left out.
	Identified string
}

// The frames, by what a chat template shows.
var (
	frameDeepSeek = Frame{Open: "<｜tool▁calls▁begin｜>", Before: "<｜tool▁call▁begin｜>", Arguments: "<｜tool▁sep｜>",
		After: "<｜tool▁call▁end｜>", Close: "<｜tool▁calls▁end｜>"}
	// frameDeepSeekFenced is that of the models before V3.1.
	frameDeepSeekFenced = Frame{Open: "<｜tool▁calls▁begin｜>", Before: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
		Arguments: "\n```json\n", After: "\n```<｜tool▁call▁end｜>", Between: "\n", Close: "<｜tool▁calls▁end｜>"}
	frameKimi = Frame{Open: "<|tool_calls_section_begin|>", Before: "<|tool_call_begin|>functions.", Numbered: true,
		Arguments: "<|tool_call_argument_begin|>", After: "<|tool_call_end|>", Close: "<|tool_calls_section_end|>"}
	frameMistral     = Frame{Open: "[TOOL_CALLS]", Arguments: "[ARGS]"}
	frameMistralID   = Frame{Open: "[TOOL_CALLS]", Arguments: "[ARGS]", Identified: "[CALL_ID]"}
	frameMistralList = Frame{Open: "[TOOL_CALLS]", Before: `{"name": "`, Arguments: `", "arguments": `, After: "}",
		Between: ", ", List: true, Identified: `, "id": "`}
)

// FrameOf is the frame of the calls that a chat template shows; nil where they have none.
func FrameOf(template string) *Frame {
	shows := func(text string) bool { return strings.Contains(template, text) }
	switch {
	case shows(frameDeepSeek.Open) && shows("```json"):
		return &frameDeepSeekFenced
	case shows(frameDeepSeek.Open):
		return &frameDeepSeek
	case shows(frameKimi.Open):
		return &frameKimi
	case shows(frameMistral.Open) && shows(frameMistralID.Identified):
		return &frameMistralID
	case shows(frameMistral.Open) && shows(frameMistral.Arguments):
		return &frameMistral
	case shows(frameMistral.Open):
		return &frameMistralList
	}
	return nil
}

// Marks are the texts of the frame that may be tokens, but for Open.
func (f *Frame) Marks() []string {
	var all []string
	for _, text := range []string{f.Before, f.Arguments, f.After, f.Close, f.Identified} {
		for len(text) > 0 {
			from := strings.IndexAny(text, "<[")
			if from < 0 {
				break
			}
			to := strings.IndexAny(text[from:], ">]")
			if to < 0 {
				break
			}
			all = append(all, text[from:from+to+1])
			text = text[from+to+1:]
		}
	}
	return all
}

// opening is what begins calls, as text.
func (p *Parser) opening() string {
	if p.options.Frame != nil {
		return p.options.Frame.Open
	}
	return callOpen
}

// InCall says whether a call is held.
func (p *Parser) InCall() bool { return p.state == stateCall && !p.options.Channels }

// lookFrame finds the end of framed calls outside of strings: Close, or without one the end of the list or
// of the first call's arguments.
func (h *callScan) lookFrame(buf []byte) (verdict, int) {
	f := h.frame
	if h.scanned == 0 {
		h.scanned = len(f.Open)
		h.waits = f.Close == "" && !f.List
	}
	for i := h.scanned; i < len(buf); i++ {
		h.scanned = i + 1
		c := buf[i]
		switch {
		case h.waits: // brackets of marks in front of the arguments count nothing
			h.waits = !bytes.HasSuffix(buf[len(f.Open):i+1], []byte(f.Arguments))
		case h.escaped:
			h.escaped = false
		case c == '\\' && h.quoted:
			h.escaped = true
		case c == '"':
			h.quoted = !h.quoted
		case h.quoted:
		case f.Close != "":
			if bytes.HasSuffix(buf[len(f.Open):i+1], []byte(f.Close)) {
				return callComplete, i + 1
			}
		case c == '{' || c == '[':
			h.depth++
		case c == '}' || c == ']':
			if h.depth--; h.depth <= 0 {
				return callComplete, i + 1
			}
		}
	}
	return callPending, 0
}

// framedCall is one call of a frame.
type framedCall struct{ name, arguments string }

// readCalls reads what was held: calls of offered tools.
func (p *Parser) readCalls(raw string) ([]framedCall, bool) {
	if p.options.Frame != nil {
		return p.readFrame(raw)
	}
	name, arguments, ok := p.readCall(raw)
	return []framedCall{{name, arguments}}, ok
}

// readFrame reads whole framed calls, all of which must be of offered tools.
func (p *Parser) readFrame(raw string) (calls []framedCall, ok bool) {
	f := p.options.Frame
	rest := strings.Trim(strings.TrimSuffix(raw[len(f.Open):], f.Close), space)
	if f.List {
		var list []json.RawMessage
		if json.Unmarshal([]byte(rest), &list) != nil || len(list) == 0 {
			return nil, false
		}
		for _, one := range list {
			name, arguments, ok := readJSON(string(one), p.options.Tools)
			if !ok {
				return nil, false
			}
			calls = append(calls, framedCall{name, arguments})
		}
		return calls, true
	}
	for rest != "" {
		var one framedCall
		if one, rest, ok = f.cut(rest); !ok {
			return nil, false
		}
		if _, known := toolByName(p.options.Tools, one.name); !known {
			return nil, false
		}
		calls = append(calls, one)
	}
	return calls, len(calls) > 0
}

// cut reads the first call of a text.
func (f *Frame) cut(text string) (one framedCall, rest string, ok bool) {
	rest, begun := strings.CutPrefix(text, f.Before)
	name, rest, found := strings.Cut(rest, f.Arguments)
	if !begun || !found {
		return one, "", false
	}
	if f.Identified != "" {
		name, _, _ = strings.Cut(name, f.Identified)
	}
	if f.Numbered {
		if at := strings.LastIndexByte(name, ':'); at >= 0 {
			name = name[:at]
		}
	}
	one.name = strings.Trim(name, space)
	value, size, ok := firstValue(rest)
	if !ok {
		return one, "", false
	}
	if one.arguments, ok = normal(value); !ok || one.arguments[0] != '{' {
		return one, "", false
	}
	rest, ended := strings.CutPrefix(strings.TrimLeft(rest[size:], space), strings.TrimLeft(f.After, space))
	return one, strings.TrimLeft(rest, space), ended
}

// firstValue is the JSON value that a text begins with, and where it ends.
func firstValue(text string) (value json.RawMessage, end int, ok bool) {
	dec := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, 0, false
	}
	return json.RawMessage(strings.Clone(string(raw))), int(dec.InputOffset()), true
}
