package responses

import (
	"bytes"
	"slices"
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// fields are what may count in an item, a tool, a choice or a format: checked values,
// nil when absent or null. Which of them do depends on kind.
type fields struct {
	kind, role, content, id              []byte
	callID, name, namespace              []byte
	arguments, input, output             []byte
	summary, description, parameters     []byte
	strict, format, tools, text, refusal []byte
	schema, mode, author, encrypted      []byte
	execution, reasoning                 []byte
}

// slot is where the value of a field goes, nil for one that never counts.
func (f *fields) slot(name []byte) *[]byte {
	switch string(name) {
	case "type":
		return &f.kind
	case "role":
		return &f.role
	case "content":
		return &f.content
	case "id":
		return &f.id
	case "call_id":
		return &f.callID
	case "name":
		return &f.name
	case "namespace":
		return &f.namespace
	case "arguments":
		return &f.arguments
	case "input":
		return &f.input
	case "output":
		return &f.output
	case "summary":
		return &f.summary
	case "description":
		return &f.description
	case "parameters":
		return &f.parameters
	case "strict":
		return &f.strict
	case "format":
		return &f.format
	case "tools":
		return &f.tools
	case "text":
		return &f.text
	case "refusal":
		return &f.refusal
	case "schema":
		return &f.schema
	case "mode":
		return &f.mode
	case "author":
		return &f.author
	case "encrypted_content":
		return &f.encrypted
	case "reasoning":
		return &f.reasoning
	case "execution":
		return &f.execution
	}
	return nil
}

// fields reads the object that s stands before, in a text that stands at base.
func (r *request) fields(s *scan.Scanner, base place, f *fields) bool {
	*f = fields{}
	if !r.is(s, base, scan.Object) {
		return false
	}
	for s.Open(); s.NextMember(); {
		if slot := f.slot(s.Key()); slot != nil {
			*slot = s.Raw()
		}
	}
	return r.OK()
}

// toolList is an array of tools that an item tells of.
type toolList struct {
	raw    []byte
	at     place
	result int // where in messages the text of a result belongs that names them; 0 for none
	names  int // the length of that text
}

// readFound offers the tools that items tell of, behind those of the request: they become more along the way, and what
// stands before them is found in the prefix cache. What a search found is named in its result: so each list is read once,
// whatever it has in it.
func (r *request) readFound() {
	const told = "Tools that can be called: "
	r.ofItem = true
	var names []byte // of all lists that a result names
	for i := range r.found {
		list := &r.found[i]
		r.flags |= keptRenumbered
		r.names = append(r.names[:0], told...)
		var s scan.Scanner
		s.Reset(list.raw)
		r.readTools(&s, list.at)
		switch before := len(names); {
		case list.result == 0:
		case len(r.names) == len(told):
			names = append(names, noTools...)
			list.names = len(names) - before
		default:
			names = append(append(names, r.names[:len(r.names)-len(", ")]...), '.')
			list.names = len(names) - before
		}
	}
	r.tellFound(names)
}

// noTools is the result of a search that found none.
const noTools = "No tools were found."

// tellFound puts the texts into the results that name what was found, the last first: each byte behind them moves once.
func (r *request) tellFound(names []byte) {
	from := len(r.messages)
	r.messages = append(r.messages, names...)
	to := len(r.messages)
	for _, list := range slices.Backward(r.found) {
		if list.result == 0 {
			continue
		}
		to -= copy(r.messages[to-(from-list.result):], r.messages[list.result:from])
		from = list.result
		to -= copy(r.messages[to-list.names:], names[len(names)-list.names:])
		names = names[:len(names)-list.names]
	}
}

// readTools reads an array of tools, in a text that stands at base, and offers
// the client's own ones to the model. Those that the service would have to run
// are skipped in silence.
func (r *request) readTools(s *scan.Scanner, base place) {
	if !r.is(s, base, scan.Array) {
		return
	}
	path := base.at(s.Path())
	var f fields
	for s.Open(); s.Next(); {
		index := s.Index()
		if r.fields(s, base, &f) {
			r.tool(&f, element(path, index))
		}
	}
}

// serverTools are the beginnings of the types of tools that run on the
// service's side, or need a service that does.
var serverTools = [8]string{
	"web_search", "file_search", "code_interpreter", "image_generation", "mcp", "computer",
	"tool_search", "programmatic_tool_calling",
}

// serverTool is which of serverTools a type is, as a bit; 0 for none.
func serverTool(kind []byte) uint8 {
	for i, prefix := range serverTools {
		if bytes.HasPrefix(kind, []byte(prefix)) {
			return 1 << i
		}
	}
	return 0
}

func (r *request) tool(f *fields, p place) {
	kind := word(r.required(f.kind, p, "type"))
	echo := r.echo[echoTools]
	if echo == nil {
		echo = []byte{'['}
	}
	switch string(kind) {
	case "function":
		echo = r.function(echo, nil, f, p)
	case "custom":
		echo = r.customTool(echo, nil, f, p)
	case "namespace":
		echo = r.namespaceTool(echo, f, p)
	case "local_shell", "shell", "apply_patch":
		r.Fail(p.at("type"), quote(kind)+" is a tool that only models trained for it can use; offer it as a function")
	default:
		if string(kind) == searchTool && f.ofClient() {
			echo = r.search(echo, f, p)
			break
		}
		if server := serverTool(kind); server != 0 {
			r.flags |= keptRenumbered
			r.skipped |= server
			return
		}
		r.Fail(p.at("type"), quote(kind)+" is not a tool type this service knows")
	}
	r.echo[echoTools] = echo
}

// next is an array that is being written, ready for one more element.
func next(array []byte) []byte {
	if array[len(array)-1] == '[' {
		return array
	}
	return append(array, ',')
}

// name checks and returns a tool's name, and checks its namespace.
func (r *request) name(f *fields, p place) []byte {
	name := r.required(f.name, p, "name")
	namespace := r.text(f.namespace, p, "namespace")
	if bytes.IndexByte(name, namespaceMark) >= 0 || bytes.IndexByte(namespace, namespaceMark) >= 0 {
		r.Fail(p.at("name"), "a colon cannot be part of a name; want letters, digits, '_' or '-'")
	}
	return name
}

// nativeName is the name that the model sees: behind its namespace, a checked
// value, if there is one.
func nativeName(namespace, name []byte) []byte {
	if len(namespace) <= len(`""`) {
		return name
	}
	native := append([]byte{}, namespace[1:len(namespace)-1]...)
	return append(append(native, namespaceMark), name...)
}

// known says whether an item tells of a tool of a native name that is offered already: what a search found, each later
// one may find again, and the first stays. Two of a name in tools itself are left to the engine, which refuses them.
func (r *request) known(native []byte) bool {
	if r.offered == nil {
		r.offered = map[string]bool{}
	}
	name := string(word(native))
	known := r.ofItem && r.offered[name]
	r.offered[name] = true
	return known
}

// tell names a tool in the result of the search that found it, known or not.
func (r *request) tell(native []byte) {
	r.names = append(append(r.names, native...), ", "...)
}

// offer offers a native tool.
func (r *request) offer(name, description, schema []byte) {
	r.tools = field.AppendTool(append(r.tools, ','), name, description, schema)
}

// function offers a function tool, and appends what is echoed of it.
func (r *request) function(echo, namespace []byte, f *fields, p place) []byte {
	f.namespace = namespace
	name := r.name(f, p)
	description := r.text(f.description, p, "description")
	if f.parameters != nil && f.parameters[0] != '{' {
		r.Wrong(p.at("parameters"), "an object", kindOf(f.parameters))
	}
	if f.strict != nil && kindOf(f.strict) != scan.Bool {
		r.Wrong(p.at("strict"), "a boolean", kindOf(f.strict))
	}
	native := nativeName(namespace, name)
	r.tell(native)
	if r.known(native) {
		return echo
	}
	r.offer(native, description, schemaOf(f))
	echo = append(append(append(next(echo), `{"type":"function","name":"`...), name...), '"')
	echo = appendMember(echo, "description", f.description)
	echo = appendMember(echo, "parameters", f.parameters)
	return append(appendMember(echo, "strict", f.strict), '}')
}

func appendMember(dst []byte, name string, value []byte) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	if value == nil {
		return append(dst, "null"...)
	}
	return appendCompact(dst, value)
}

// customTool offers a custom tool as a function whose one argument is the free
// text. Its grammar is told, not enforced.
func (r *request) customTool(echo, namespace []byte, f *fields, p place) []byte {
	f.namespace = namespace
	name := r.name(f, p)
	description := r.text(f.description, p, "description")
	g := r.grammar(f.format, place{base: p.at("format"), item: -1, part: -1})
	native := nativeName(namespace, name)
	r.tell(native)
	if r.known(native) {
		return echo
	}
	if len(r.custom)/8 == customMax {
		r.Fail("tools", "at most "+strconv.Itoa(customMax)+" custom tools")
		return echo
	}
	r.custom = r.custom.add(native)
	told := append([]byte{}, description...)
	if g.definition != nil {
		told = append(append(told, `\n\nThe input follows this `...), g.syntax...)
		told = append(append(told, ` grammar:\n`...), g.definition...)
	}
	r.offer(native, told, []byte(`{"type":"object","properties":{"`+customField+
		`":{"type":"string","description":"The whole input of the tool, as plain text."}},"required":["`+customField+`"]}`))
	echo = append(append(append(next(echo), `{"type":"custom","name":"`...), name...), '"')
	if f.description != nil {
		echo = append(append(append(echo, `,"description":"`...), description...), '"')
	}
	return append(g.appendEcho(echo), '}')
}

// searchTool is the type of the tool that searches tools, and the name of the function that stands for a client's own.
const searchTool = "tool_search"

// ofClient says whether a search of tools says that it is the client's own.
func (f *fields) ofClient() bool { return string(f.execution) == `"client"` }

// search offers the client's own search of tools as a function, and appends what is echoed of it.
func (r *request) search(echo []byte, f *fields, p place) []byte {
	description := r.text(f.description, p, "description")
	if f.parameters != nil && f.parameters[0] != '{' {
		r.Wrong(p.at("parameters"), "an object", kindOf(f.parameters))
	}
	if r.known([]byte(searchTool)) {
		return echo
	}
	r.flags |= keptSearch
	r.offer([]byte(searchTool), description, schemaOf(f))
	echo = append(next(echo), `{"type":"`+searchTool+`","execution":"client"`...)
	echo = appendMember(echo, "description", f.description)
	return append(appendMember(echo, "parameters", f.parameters), '}')
}

// schemaOf is what a function takes.
func schemaOf(f *fields) []byte {
	if f.parameters == nil {
		return []byte(field.NoParameters)
	}
	return f.parameters
}

// grammar is the format of a custom tool's input, escaped; zero for plain text.
type grammar struct{ syntax, definition []byte }

func (r *request) grammar(raw []byte, p place) (g grammar) {
	var s scan.Scanner
	s.Reset(raw)
	r.is(&s, p, scan.Object)
	kind := []byte("text")
	for s.Open(); s.Next(); {
		switch string(s.Key()) {
		case "type":
			kind = word(r.text(s.Raw(), p, "type"))
		case "syntax":
			g.syntax = r.text(s.Raw(), p, "syntax")
		case "definition":
			g.definition = r.text(s.Raw(), p, "definition")
		}
	}
	syntax := word(g.syntax)
	switch {
	case string(kind) == "text":
		return grammar{}
	case string(kind) != "grammar":
		r.Fail(p.at("type"), quote(kind)+" is not one of text, grammar")
	case string(syntax) != "lark" && string(syntax) != "regex":
		r.Fail(p.at("syntax"), quote(syntax)+" is not one of lark, regex")
	case g.definition == nil:
		r.Fail(p.at("definition"), "field required, a string")
	}
	return g
}

func (g grammar) appendEcho(dst []byte) []byte {
	if g.definition == nil {
		return append(dst, `,"format":{"type":"text"}`...)
	}
	dst = append(append(dst, `,"format":{"type":"grammar","syntax":"`...), g.syntax...)
	dst = append(append(dst, `","definition":"`...), g.definition...)
	return append(dst, `"}`...)
}

// namespaceTool offers the tools of a namespace.
func (r *request) namespaceTool(echo []byte, f *fields, p place) []byte {
	name := r.required(f.name, p, "name")
	description := r.text(f.description, p, "description")
	if f.tools == nil {
		r.Fail(p.at("tools"), "field required, an array of tools")
	}
	r.flags |= keptRenumbered
	before := echo
	echo = append(append(next(echo), `{"type":"namespace","name":"`...), name...)
	echo = append(append(echo, `","description":"`...), description...)
	echo = append(echo, `","tools":[`...)
	space := f.name // as a value, like a namespace field
	var s scan.Scanner
	s.Reset(f.tools)
	list := p.in("tools", -1)
	if !r.is(&s, list, scan.Array) {
		return echo
	}
	var inner fields
	for s.Open(); s.Next(); {
		one := p.in("tools", s.Index())
		if r.fields(&s, list, &inner) {
			echo = r.namespaced(echo, space, &inner, one)
		}
	}
	if echo[len(echo)-1] == '[' { // it has nothing that is not known
		return before
	}
	return append(echo, "]}"...)
}

func (r *request) namespaced(echo, namespace []byte, f *fields, p place) []byte {
	switch kind := word(r.required(f.kind, p, "type")); string(kind) {
	case "function":
		return r.function(echo, namespace, f, p)
	case "custom":
		return r.customTool(echo, namespace, f, p)
	default:
		r.Fail(p.at("type"), quote(kind)+" is not one of function, custom")
		return echo
	}
}

// appendQuoted appends text, which has no escapes, as a JSON string.
func appendQuoted(dst, text []byte) []byte {
	return append(abi.AppendEscaped(append(dst, '"'), string(text)), '"')
}
