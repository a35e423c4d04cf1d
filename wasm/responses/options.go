package responses

import "corenode/wasm/sdk/scan"

// readReasoning reads reasoning. Every effort but none is the same here:
// thinking is on.
func (r *request) readReasoning(s *scan.Scanner) {
	if !r.want(s, top, scan.Object) {
		return
	}
	var effort, summary []byte
	for s.Open(); r.err == nil && s.Next(); {
		switch key := string(s.Key()); {
		case key != "effort" && key != "summary" && key != "generate_summary" || s.Null():
		case key == "effort":
			effort = r.str(s)
		default: // summaries are the thinking itself, whatever was asked for
			summary = r.str(s)
		}
	}
	r.thinkingOff = string(word(effort)) == "none"
	echo := append([]byte{}, `{"effort":`...)
	echo = appendWord(echo, effort, "none", "minimal", "low", "medium", "high", "xhigh", "max")
	echo = append(echo, `,"summary":`...)
	echo = appendWord(echo, summary, "auto", "concise", "detailed")
	r.echo.raw(echoReasoning, append(echo, '}'))
}

// appendWord appends a string if it is one that the protocol knows, else null:
// what is echoed stays valid when clients know more words than this service.
func appendWord(dst, escaped []byte, known ...string) []byte {
	got := word(escaped)
	for _, k := range known {
		if string(got) == k {
			return append(append(append(dst, '"'), k...), '"')
		}
	}
	return append(dst, "null"...)
}

// readText reads text: the format of the answer, and its verbosity, which
// changes nothing.
func (r *request) readText(s *scan.Scanner) {
	if !r.want(s, top, scan.Object) {
		return
	}
	var verbosity []byte
	for s.Open(); r.err == nil && s.Next(); {
		switch key := string(s.Key()); {
		case key != "format" && key != "verbosity" || s.Null():
		case key == "format":
			r.format(s)
		default:
			verbosity = r.str(s)
		}
	}
	echo := append([]byte{}, `{"format":{"type":"text"}`...)
	if len(verbosity) > 0 {
		echo = append(echo, `,"verbosity":`...)
		echo = appendWord(echo, verbosity, "low", "medium", "high")
	}
	r.echo.raw(echoText, append(echo, '}'))
}

func (r *request) format(s *scan.Scanner) {
	if !r.want(s, top, scan.Object) {
		return
	}
	kind, found := []byte(nil), false
	for s.Open(); r.err == nil && s.Next(); {
		if string(s.Key()) == "type" {
			kind, found = r.str(s), true
		}
	}
	if r.err != nil {
		return
	}
	switch k := string(word(kind)); {
	case !found:
		r.fail("text.format.type", "field required")
	case k == "json_object" || k == "json_schema":
		r.fail("text.format.type", quote(word(kind))+` needs decoding constrained to a schema, which this version does not have; use "text"`)
	case k != "text":
		r.fail("text.format.type", quote(word(kind))+" is not one of text, json_schema, json_object")
	}
}

// readMetadata checks metadata, which is only echoed.
func (r *request) readMetadata(s *scan.Scanner) {
	if !r.want(s, top, scan.Object) {
		return
	}
	echo := []byte{'{'}
	for s.Open(); r.err == nil && s.Next(); {
		key := s.Key()
		if len(echo) > 1 {
			echo = append(echo, ',')
		}
		echo = appendQuoted(echo, key)
		value := r.str(s)
		echo = append(append(append(echo, `:"`...), value...), '"')
	}
	r.echo.raw(echoMetadata, append(echo, '}'))
}

// choice is how the model may use tools.
type choice struct {
	mode string // native: auto, any, tool or none; empty when nothing was said
	name []byte // tool only: escaped
}

// readChoice reads tool_choice.
func (r *request) readChoice(s *scan.Scanner) {
	if s.Kind() == scan.String {
		text := r.str(s)
		switch mode := string(word(text)); mode {
		case "auto", "none":
			r.choice.mode = mode
		case "required":
			r.choice.mode = "any"
		default:
			r.fail("tool_choice", quote(word(text))+" is not one of auto, none, required")
		}
		r.echo.text(echoToolChoice, text)
		return
	}
	if s.Kind() != scan.Object {
		r.neither(s, "a string or an object")
		return
	}
	var f fields
	r.fields(s, top, &f)
	if r.err != nil {
		return
	}
	kind := word(r.text(f.kind, top, "tool_choice.type"))
	if r.err == nil && string(kind) != "function" && string(kind) != "custom" {
		r.fail("tool_choice.type", quote(kind)+" cannot be chosen here; choose a function or a custom tool, or auto, none or required")
	}
	name := r.name(&f, place{base: "tool_choice", item: -1, part: -1})
	r.choice = choice{mode: "tool", name: appendName(nil, f.namespace, name)}
	echo := append(append([]byte{}, `{"type":"`...), kind...)
	echo = append(append(echo, `","name":"`...), name...)
	r.echo.raw(echoToolChoice, append(echo, `"}`...))
}

// appendChoice appends the native tool_choice. What only restricts tools is
// left out when there are none.
func (r *request) appendChoice(b []byte) []byte {
	mode := r.choice.mode
	if mode == "" {
		mode = "auto"
	}
	plain := mode == "auto" && !r.sequential
	if plain || r.offered == 0 && (mode == "auto" || mode == "none") {
		return b
	}
	b = append(append(b, `,"tool_choice":{"type":"`...), mode...)
	b = append(b, '"')
	if mode == "tool" {
		b = append(append(append(b, `,"name":"`...), r.choice.name...), '"')
	}
	if r.sequential && mode != "none" {
		b = append(b, `,"disable_parallel_tool_use":true`...)
	}
	return append(b, '}')
}
