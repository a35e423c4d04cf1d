package output

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Delimiters are how models of a family write calls: names, and arguments as JSON, between delimiters of
// their own. Those may be control tokens; the engine gives the text of those within a call to the parser all the same.
type Delimiters struct {
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
	// Identified stands behind the name, or in a list the member behind the arguments, followed by the
	// call's id of nine letters and digits; "" without one. In a list it may be left out.
	Identified string
}

// Those that are known, by what a chat template shows.
var (
	delimitersDeepSeek = Delimiters{Open: "<｜tool▁calls▁begin｜>", Before: "<｜tool▁call▁begin｜>", Arguments: "<｜tool▁sep｜>",
		After: "<｜tool▁call▁end｜>", Close: "<｜tool▁calls▁end｜>"}
	// delimitersDeepSeekFenced is that of the models before V3.1.
	delimitersDeepSeekFenced = Delimiters{Open: "<｜tool▁calls▁begin｜>", Before: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
		Arguments: "\n```json\n", After: "\n```<｜tool▁call▁end｜>", Between: "\n", Close: "<｜tool▁calls▁end｜>"}
	delimitersKimi = Delimiters{Open: "<|tool_calls_section_begin|>", Before: "<|tool_call_begin|>functions.", Numbered: true,
		Arguments: "<|tool_call_argument_begin|>", After: "<|tool_call_end|>", Close: "<|tool_calls_section_end|>"}
	delimitersMistral     = Delimiters{Open: "[TOOL_CALLS]", Arguments: "[ARGS]"}
	delimitersMistralID   = Delimiters{Open: "[TOOL_CALLS]", Arguments: "[ARGS]", Identified: "[CALL_ID]"}
	delimitersMistralList = Delimiters{Open: "[TOOL_CALLS]", Before: `{"name": "`, Arguments: `", "arguments": `, After: "}",
		Between: ", ", List: true, Identified: `, "id": "`}
)

// DelimitersOf are the delimiters of the calls that a chat template shows; nil where they have none.
func DelimitersOf(template string) *Delimiters {
	shows := func(text string) bool { return strings.Contains(template, text) }
	switch {
	case shows(delimitersDeepSeek.Open) && shows("```json"):
		return &delimitersDeepSeekFenced
	case shows(delimitersDeepSeek.Open):
		return &delimitersDeepSeek
	case shows(delimitersKimi.Open):
		return &delimitersKimi
	case shows(delimitersMistral.Open) && shows(delimitersMistralID.Identified):
		return &delimitersMistralID
	case shows(delimitersMistral.Open) && shows(delimitersMistral.Arguments):
		return &delimitersMistral
	case shows(delimitersMistral.Open):
		return &delimitersMistralList
	}
	return nil
}

// Tokens are the parts of the delimiters that may be tokens, but for Open.
func (d *Delimiters) Tokens() []string {
	var all []string
	for _, text := range []string{d.Before, d.Arguments, d.After, d.Close, d.Identified} {
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
	if p.options.Delimiters != nil {
		return p.options.Delimiters.Open
	}
	return callOpen
}

// InCall says whether a call is held.
func (p *Parser) InCall() bool { return p.state == stateCall && !p.options.Channels }

// lookDelimited finds the end of delimited calls outside of strings: Close, or without one the end of the list or
// of the first call's arguments.
func (h *callScan) lookDelimited(buf []byte) (verdict, int) {
	d := h.delimiters
	if h.scanned == 0 {
		h.scanned = len(d.Open)
		h.waits = d.Close == "" && !d.List
	}
	for i := h.scanned; i < len(buf); i++ {
		h.scanned = i + 1
		c := buf[i]
		switch {
		case h.waits: // brackets of delimiters in front of the arguments count nothing
			h.waits = !bytes.HasSuffix(buf[len(d.Open):i+1], []byte(d.Arguments))
		case h.escaped:
			h.escaped = false
		case c == '\\' && h.quoted:
			h.escaped = true
		case c == '"':
			h.quoted = !h.quoted
		case h.quoted:
		case d.Close != "":
			if bytes.HasSuffix(buf[len(d.Open):i+1], []byte(d.Close)) {
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

// toolCall is one call that was read.
type toolCall struct{ name, arguments string }

// readCalls reads what was held: calls of offered tools.
func (p *Parser) readCalls(raw string) ([]toolCall, bool) {
	if p.options.Delimiters != nil {
		return p.readDelimited(raw)
	}
	name, arguments, ok := p.readCall(raw)
	return []toolCall{{name, arguments}}, ok
}

// readDelimited reads whole delimited calls, all of which must be of offered tools.
func (p *Parser) readDelimited(raw string) (calls []toolCall, ok bool) {
	d := p.options.Delimiters
	rest := strings.Trim(strings.TrimSuffix(raw[len(d.Open):], d.Close), space)
	if d.List {
		var list []json.RawMessage
		if json.Unmarshal([]byte(rest), &list) != nil || len(list) == 0 {
			return nil, false
		}
		for _, one := range list {
			name, arguments, ok := readJSON(string(one), p.options.Tools)
			if !ok {
				return nil, false
			}
			calls = append(calls, toolCall{name, arguments})
		}
		return calls, true
	}
	for rest != "" {
		var one toolCall
		if one, rest, ok = d.cut(rest); !ok {
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
func (d *Delimiters) cut(text string) (one toolCall, rest string, ok bool) {
	rest, begun := strings.CutPrefix(text, d.Before)
	name, rest, _ := strings.Cut(rest, d.Arguments)
	if !begun {
		return one, "", false
	}
	if d.Identified != "" {
		name, _, _ = strings.Cut(name, d.Identified)
	}
	if d.Numbered {
		if at := strings.LastIndexByte(name, ':'); at >= 0 {
			name = name[:at]
		}
	}
	one.name = strings.Trim(name, space)
	value, size, ok := firstValue(rest)
	if !ok {
		return one, "", false
	}
	if one.arguments, ok = Normal(value); !ok || one.arguments[0] != '{' {
		return one, "", false
	}
	rest, ended := strings.CutPrefix(strings.TrimLeft(rest[size:], space), strings.TrimLeft(d.After, space))
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
