package output

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"

	keyOpen       = "<arg_key>"
	keyClose      = "</arg_key>"
	keyValueOpen  = "<arg_value>"
	keyValueClose = "</arg_value>"
	keyNameMax    = 256 // bytes of a name with its blanks
)

// verdict is what is known about a held call.
type verdict uint8

const (
	callPending  verdict = iota // it may go on
	callNone                    // only the tag was mentioned
	callComplete                // it ends here and may be read
	callBroken                  // it ends here and is none
)

// callScan finds the end of a call while it arrives, looking at each byte once
// (but for the last few of an end tag).
type callScan struct {
	keyed   []Tool // those that calls of keys may name; nil where calls have another form
	inside  int    // where what follows the tag and whitespace begins, as far as is known
	scanned int    // bytes looked at
	// quoted and escaped are where the JSON form is at scanned: inside a string, after a backslash.
	quoted, escaped bool

	delimiters *Delimiters // of the calls; nil where they have another form
	waits      bool        // the delimited arguments have not begun
	depth      int         // of brackets
}

// look judges what is held, which starts with what begins calls. With callComplete
// and callBroken it returns where the call ends.
func (h *callScan) look(buf []byte) (verdict, int) {
	v, end := h.judge(buf)
	if v == callPending && len(buf) > heldMax || end > heldMax {
		return callBroken, cutAt(string(buf), heldMax)
	}
	return v, end
}

func (h *callScan) judge(buf []byte) (verdict, int) {
	if h.delimiters != nil {
		return h.lookDelimited(buf)
	}
	h.inside = max(h.inside, len(callOpen))
	h.inside += leadingSpace(buf[h.inside:])
	inside := buf[h.inside:]
	switch {
	case len(inside) == 0:
		return callPending, 0
	case inside[0] == '{':
		return h.lookJSON(buf)
	case h.keyed != nil:
		return h.lookKeys(buf)
	case bytes.HasPrefix(inside, []byte(functionOpen)):
		return h.lookXML(buf)
	case len(inside) < len(functionOpen) && strings.HasPrefix(functionOpen, string(inside)):
		return callPending, 0
	}
	return callNone, 0
}

// lookJSON finds the end tag outside of strings: inside of one it is data.
func (h *callScan) lookJSON(buf []byte) (verdict, int) {
	for i := h.scanned; i < len(buf); i++ {
		h.scanned = i + 1
		switch c := buf[i]; {
		case h.escaped:
			h.escaped = false
		case c == '\\' && h.quoted:
			h.escaped = true
		case c == '"':
			h.quoted = !h.quoted
		case c == '>' && !h.quoted && bytes.HasSuffix(buf[:i+1], []byte(callClose)):
			return callComplete, i + 1
		}
	}
	return callPending, 0
}

// lookXML finds the end tag. One that does not follow </function> is data
// inside a parameter, else the end of something broken.
func (h *callScan) lookXML(buf []byte) (verdict, int) {
	from := max(h.scanned-len(callClose), len(callOpen))
	for {
		i := bytes.Index(buf[from:], []byte(callClose))
		if i < 0 {
			h.scanned = len(buf)
			return callPending, 0
		}
		end := from + i + len(callClose)
		body := bytes.TrimRight(buf[:from+i], space)
		switch {
		case bytes.HasSuffix(body, []byte(functionClose)):
			return callComplete, end
		case !bytes.Contains(body, []byte(parameterOpen)), bytes.HasSuffix(body, []byte(parameterClose)):
			return callBroken, end
		}
		from = end
	}
}

// lookKeys finds the end tag that follows the name or a value: elsewhere it is data. What does not
// begin with the name of a tool is none.
func (h *callScan) lookKeys(buf []byte) (verdict, int) {
	name := buf[h.inside:]
	end := bytes.IndexAny(name, "\n<")
	if end < 0 {
		if len(name) > keyNameMax {
			return callNone, 0
		}
		return callPending, 0
	}
	if _, known := toolByName(h.keyed, strings.Trim(string(name[:end]), space)); !known {
		return callNone, 0
	}
	for from := max(h.scanned-len(callClose), h.inside); ; {
		i := bytes.Index(buf[from:], []byte(callClose))
		if i < 0 {
			h.scanned = len(buf)
			return callPending, 0
		}
		end, body := from+i+len(callClose), bytes.TrimRight(buf[h.inside:from+i], space)
		if !bytes.Contains(body, []byte(keyOpen)) || bytes.HasSuffix(body, []byte(keyValueClose)) {
			return callComplete, end
		}
		from = end
	}
}

// readKeys reads a name with keys and values. A value is what the model wrote, blanks too, up to
// the first end of a value with another key or nothing after it.
func (p *Parser) readKeys(inside string) (name, arguments string, ok bool) {
	name, rest := inside, ""
	if i := strings.Index(inside, keyOpen); i >= 0 {
		name, rest = inside[:i], inside[i:]
	}
	tool, ok := toolByName(p.options.Tools, strings.Trim(name, space))
	if !ok {
		return "", "", false
	}
	var all []parameter
	for rest != "" {
		key, after, _ := strings.Cut(rest[len(keyOpen):], keyClose)
		after, opened := strings.CutPrefix(strings.TrimLeft(after, space), keyValueOpen)
		if !opened {
			return "", "", false
		}
		one := parameter{name: strings.Trim(key, space)}
		if one.value, rest, ok = cutUntil(after, keyValueClose, keyOpen); !ok {
			return "", "", false
		}
		all = withParameter(all, one)
	}
	return tool.Name, encodeArguments(all, p.parameterTypes(tool), p.options.Constrained), true
}

func toolByName(tools []Tool, name string) (*Tool, bool) {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	return &tools[i], true
}

// readJSON reads the form {"name": ..., "arguments": {...}}. Arguments may be
// missing, or an object written into a string.
func readJSON(inside string, tools []Tool) (name, arguments string, ok bool) {
	var call struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"` // what some models write instead
	}
	if json.Unmarshal([]byte(inside), &call) != nil {
		return "", "", false
	}
	if _, known := toolByName(tools, call.Name); !known {
		return "", "", false
	}
	raw := call.Arguments
	if raw == nil {
		raw = call.Parameters
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if trimmed := string(bytes.TrimSpace(raw)); trimmed == "" || trimmed == "null" {
		return call.Name, "{}", true
	}
	arguments, ok = Normal(raw)
	return call.Name, arguments, ok && arguments[0] == '{'
}

// readXML reads <function=NAME> with its parameters, up to the end that lookXML has found. Values are
// not XML: they hold whatever the model wrote.
func (p *Parser) readXML(inside string) (name, arguments string, ok bool) {
	name, rest, _ := strings.Cut(inside[len(functionOpen):], ">")
	tool, ok := toolByName(p.options.Tools, strings.Trim(name, space))
	if !ok {
		return "", "", false
	}
	parameters, ok := readParameters(strings.TrimSuffix(rest, functionClose))
	if !ok {
		return "", "", false
	}
	return tool.Name, encodeArguments(parameters, p.parameterTypes(tool), p.options.Constrained), true
}

// parameterTypes are the types of a tool's parameters, looked up with its first call.
func (p *Parser) parameterTypes(t *Tool) map[string]Types {
	types, known := p.types[t.Name]
	if !known {
		types, _ = ParameterTypes(t.Schema)
		p.types[t.Name] = types
	}
	return types
}

type parameter struct{ name, value string }

// readParameters takes the inside of a function apart. A parameter ends at the
// first </parameter> with another parameter or nothing after it, so that the
// tag may stand in a value; a last one that is not closed ends with the function.
func readParameters(rest string) ([]parameter, bool) {
	var out []parameter
	var value string
	for {
		rest = strings.TrimLeft(rest, space)
		if rest == "" {
			return out, true
		}
		after, ok := strings.CutPrefix(rest, parameterOpen)
		if !ok {
			return nil, false
		}
		name, after, ok := strings.Cut(after, ">")
		if !ok {
			return nil, false
		}
		value, rest, ok = cutUntil(after, parameterClose, parameterOpen)
		if !ok {
			value, rest = after, ""
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n") // which belong to the format
		out = withParameter(out, parameter{strings.Trim(name, space), value})
	}
}

// withParameter adds p, or takes its value for one of the same name: JSON has a name once.
func withParameter(all []parameter, p parameter) []parameter {
	if i := slices.IndexFunc(all, func(q parameter) bool { return q.name == p.name }); i >= 0 {
		all[i] = p
		return all
	}
	return append(all, p)
}

// cutUntil cuts s at the first closing tag with another opening one or nothing after it.
func cutUntil(s, closing, opening string) (value, rest string, ok bool) {
	for from := 0; ; {
		i := strings.Index(s[from:], closing)
		if i < 0 {
			return "", "", false
		}
		end := from + i
		rest = strings.TrimLeft(s[end+len(closing):], space)
		if rest == "" || strings.HasPrefix(rest, opening) {
			return s[:end], rest, true
		}
		from = end + len(closing)
	}
}

// encodeArguments writes the parameters as one compact JSON object.
func encodeArguments(parameters []parameter, types map[string]Types, exact bool) string {
	b := []byte{'{'}
	for i, p := range parameters {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, p.name)
		b = append(b, ':')
		b = appendValue(b, p.value, types[p.name], exact)
	}
	return string(append(b, '}'))
}

// appendString quotes s as JSON, escaping no more than it must.
func appendString(b []byte, s string) []byte {
	quoted, _ := jsontext.AppendQuote(b, s) // fails only for broken UTF-8, which it replaces
	return quoted
}
