package responses

import (
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// readReasoning reads reasoning: whether the model thinks, and how much.
func (r *request) readReasoning() {
	if !r.Open(scan.Object) {
		return
	}
	var effort, summary []byte
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "effort":
			effort = r.Str()
		case "summary", "generate_summary": // they are the thinking itself, whatever was asked for
			summary = r.Str()
		}
	}
	r.effort, r.thinkingOff = field.Effort(word(effort))
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
func (r *request) readText() {
	if !r.Open(scan.Object) {
		return
	}
	var verbosity []byte
	format := []byte(textFormat)
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "format":
			r.sampling.Format, format = r.format(&r.S, top)
		case "verbosity":
			verbosity = r.Str()
		}
	}
	echo := append([]byte(`{"format":`), format...)
	if len(verbosity) > 0 {
		echo = append(echo, `,"verbosity":`...)
		echo = appendWord(echo, verbosity, "low", "medium", "high")
	}
	r.echo.raw(echoText, append(echo, '}'))
}

// textFormat is the format of plain text.
const textFormat = `{"type":"text"}`

// format reads the format of text that s stands before, in a text that stands at base, and what is echoed of it.
func (r *request) format(s *scan.Scanner, base place) (native, echo []byte) {
	p := place{base: base.at(s.Path()), item: -1, part: -1}
	var f fields
	r.fields(s, base, &f)
	kind := word(r.required(f.kind, p, "type"))
	switch string(kind) {
	case "text":
		return nil, []byte(textFormat)
	case "json_object":
		return []byte(field.AnyObject), []byte(field.AnyObject)
	case "json_schema":
		return r.schemaFormat(&f, p)
	}
	r.Fail(p.at("type"), quote(kind)+" is not one of text, json_schema, json_object")
	return nil, nil
}

// schemaFormat reads a format that has a schema. What strict asks for, an
// answer that fits it, is what every answer is held to as far as it can be.
func (r *request) schemaFormat(f *fields, p place) (native, echo []byte) {
	r.required(f.name, p, "name")
	r.text(f.description, p, "description")
	switch {
	case f.schema == nil:
		r.Fail(p.at("schema"), "field required, an object")
	case f.schema[0] != '{':
		r.Wrong(p.at("schema"), "an object", kindOf(f.schema))
	case f.strict != nil && kindOf(f.strict) != scan.Bool:
		r.Wrong(p.at("strict"), "a boolean", kindOf(f.strict))
	}
	return field.SchemaFormat(f.schema), f.appendFormatEcho(nil)
}

// settings are what the items of the conversation changed of the request's own settings; a later one replaces it.
type settings struct {
	effort []byte // nil where none did
	text   bool   // one changed the format
	format []byte // native; nil for text
}

// configure reads an item that changes settings from where it stands on, which is for the answer in any case.
func (r *request) configure(f *fields, p place) {
	var s scan.Scanner
	if f.reasoning != nil {
		s.Reset(f.reasoning)
		at := p.in("reasoning", -1)
		if !r.is(&s, at, scan.Object) {
			return
		}
		for s.Open(); s.NextMember(); {
			if string(s.Key()) == "effort" {
				r.changed.effort = word(r.text(s.Raw(), at, "effort"))
			}
		}
	}
	s.Reset(f.text)
	at := p.in("text", -1)
	if !r.is(&s, at, scan.Object) {
		return
	}
	for s.Open(); s.NextMember(); {
		if string(s.Key()) == "format" {
			r.changed.text = true
			r.changed.format, _ = r.format(&s, at)
		}
	}
}

// change takes over what items changed.
func (r *request) change() {
	if r.changed.effort != nil {
		r.effort, r.thinkingOff = field.Effort(r.changed.effort)
	}
	if r.changed.text {
		r.sampling.Format = r.changed.format
	}
}

// appendFormatEcho appends a format that has a schema, with what was sent of it.
func (f *fields) appendFormatEcho(dst []byte) []byte {
	dst = append(dst, `{"type":"json_schema"`...)
	for _, m := range []struct {
		name  string
		value []byte
	}{{"name", f.name}, {"description", f.description}, {"schema", f.schema}, {"strict", f.strict}} {
		if m.value != nil {
			dst = appendMember(dst, m.name, m.value)
		}
	}
	return append(dst, '}')
}

// readMetadata checks metadata, which is only echoed.
func (r *request) readMetadata() {
	if !r.Open(scan.Object) {
		return
	}
	echo := []byte{'{'}
	for r.S.Next() {
		key := r.S.Key()
		if len(echo) > 1 {
			echo = append(echo, ',')
		}
		echo = appendQuoted(echo, key)
		value := r.Str()
		echo = append(append(append(echo, `:"`...), value...), '"')
	}
	r.echo.raw(echoMetadata, append(echo, '}'))
}

// choice is how the model may use tools.
type choice struct {
	mode   string // native: auto, any, tool or none; empty when nothing was said
	name   []byte // tool only: escaped; of a tool that a service would run its type
	server uint8  // bits of tools that a service would run
	// allowed are native names, without escapes, of the only own tools that may be called; nil for all.
	allowed []string
}

// readChoice reads tool_choice.
func (r *request) readChoice() {
	if r.S.Kind() == scan.String {
		text := r.Str()
		switch mode := string(word(text)); mode {
		case "auto", "none":
			r.choice.mode = mode
		case "required":
			r.choice.mode = "any"
		default:
			r.Fail("tool_choice", quote(word(text))+" is not one of auto, none, required")
		}
		r.echo.text(echoToolChoice, text)
		return
	}
	if r.S.Kind() != scan.Object {
		r.Want("a string or an object")
		return
	}
	var f fields
	r.fields(&r.S, top, &f)
	kind := word(r.text(f.kind, top, "tool_choice.type"))
	if server := serverTool(kind); server != 0 {
		r.choice = choice{name: kind, server: server}
		return
	}
	if string(kind) == "allowed_tools" {
		r.readAllowed(&f)
		return
	}
	if string(kind) != "function" && string(kind) != "custom" {
		r.cannotChoose(kind)
	}
	name := r.name(&f, place{base: "tool_choice", item: -1, part: -1})
	r.choice = choice{mode: "tool", name: nativeName(f.namespace, name)}
	echo := append(append([]byte{}, `{"type":"`...), kind...)
	echo = append(append(echo, `","name":"`...), name...)
	r.echo.raw(echoToolChoice, append(echo, `"}`...))
}

func (r *request) cannotChoose(kind []byte) {
	r.Fail("tool_choice.type", quote(kind)+" cannot be chosen here; choose a function or a custom tool, or auto, none or required")
}

// readAllowed reads a choice of the tools that may be called.
func (r *request) readAllowed(f *fields) {
	p := place{base: "tool_choice", item: -1, part: -1}
	c := choice{allowed: []string{}}
	switch mode := word(r.text(f.mode, p, "mode")); string(mode) {
	case "auto":
		c.mode = "auto"
	case "required":
		c.mode = "any"
	default:
		r.Fail(p.at("mode"), quote(mode)+" is not one of auto, required")
	}
	r.echo.raw(echoToolChoice, append([]byte(`{"type":"allowed_tools","mode":`), f.mode...))
	if f.tools == nil {
		r.Fail(p.at("tools"), "field required, an array of tools")
		return
	}
	var s scan.Scanner
	var one fields
	s.Reset(f.tools)
	list := p.in("tools", -1)
	if !r.is(&s, list, scan.Array) {
		return
	}
	for s.Open(); s.Next(); {
		at := p.in("tools", s.Index())
		if r.fields(&s, list, &one) {
			r.allowedTool(&c, &one, at)
		}
	}
	r.echo.raw(echoToolChoice, append(appendMember(r.echo[echoToolChoice], "tools", f.tools), '}'))
	r.choice = c
}

// allowedTool adds one tool to those that may be called.
func (r *request) allowedTool(c *choice, f *fields, p place) {
	kind := word(r.required(f.kind, p, "type"))
	server := serverTool(kind)
	switch {
	case server != 0:
		c.server, c.name = c.server|server, kind
	case string(kind) == "function" || string(kind) == "custom":
		c.allowed = append(c.allowed, string(word(nativeName(f.namespace, r.name(f, p)))))
	default:
		r.Fail(p.at("type"), quote(kind)+" is not one of function, custom")
	}
}

// allow takes away the tools that may not be called. Where only skipped ones may be, none is left.
func (r *request) allow() {
	some, missing := field.Only(r.tools, r.choice.allowed)
	switch {
	case missing != "":
		r.Fail("tool_choice.tools", quote([]byte(missing))+" is not the name of a tool of this request")
	case len(some) == 0 && r.choice.server == 0:
		r.Fail("tool_choice.tools", "at least one tool is required")
	case len(some) == 0:
		r.choice = choice{}
	}
	if len(some) < len(r.tools) {
		r.flags |= keptRenumbered
	}
	r.tools = some
}

// checkChoice drops a choice that only skipped tools could be: skipping them raises no error.
func (r *request) checkChoice() {
	r.chooseSearch()
	switch c := &r.choice; {
	case c.server&^r.skipped != 0:
		r.cannotChoose(c.name)
	case c.allowed != nil:
		r.allow()
	case c.mode == "any" && len(r.tools) == 0 && r.skipped != 0:
		r.choice, r.echo[echoToolChoice] = choice{}, nil
	}
}

// chooseSearch has a choice of the search of tools name the function that stands for the client's own, if there is that.
func (r *request) chooseSearch() {
	c, search := &r.choice, serverTool([]byte(searchTool))
	switch {
	case c.server&search == 0 || r.flags&keptSearch == 0:
		return
	case c.allowed == nil:
		c.mode, c.name = "tool", []byte(searchTool)
	default:
		c.allowed = append(c.allowed, searchTool)
	}
	c.server &^= search
}

// appendChoice appends the native tool_choice. What only restricts tools is
// left out when there are none.
func (r *request) appendChoice(b []byte) []byte {
	mode := r.choice.mode
	if len(r.tools) == 0 && mode != "any" && mode != "tool" {
		return b
	}
	return field.Choice{Mode: mode, Name: r.choice.name, Single: r.sequential}.Append(b)
}
