package messages

import (
	"regexp"
	"slices"
	"strings"

	"corenode/wasm/abi"
)

// serverTools are the type prefixes of tools that would run on the service's
// side, or that its models are trained for. They are skipped in silence: nothing
// runs and they cost no tokens.
var serverTools = []string{
	"web_search_", "computer_", "bash_", "text_editor_", "web_fetch_", "code_execution_", "memory_", "tool_search_tool_",
	"advisor_", "browser_",
}

// ServerTool says whether a type is of one of these families.
func ServerTool(kind string) bool {
	return slices.ContainsFunc(serverTools, func(p string) bool { return strings.HasPrefix(kind, p) })
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_.:-]+$`)

func (r *reader) tools() (tools []Tool) {
	seen := map[string]bool{}
	r.array(func() {
		t, kind := r.tool()
		t.At = r.listed
		r.listed++
		at := r.path() // the tool's object is closed: path names it
		switch {
		case !r.offered(t, kind, at):
		case seen[t.Name]:
			r.fail(invalid(at+".name", "%q is there twice", t.Name))
		case len(tools) == toolsMax:
			r.fail(tooManyTools())
		default:
			seen[t.Name] = true
			tools = append(tools, t)
		}
	})
	return tools
}

func tooManyTools() *abi.Error { return invalid("tools", "at most %d tools", toolsMax) }

// offered says whether a tool of a type, which stands there, is one of the caller's. A server-side one is skipped, and
// any other refused.
func (r *reader) offered(t Tool, kind, at string) bool {
	switch {
	case ServerTool(kind):
		r.skipped = append(r.skipped, t.Name)
	case kind != "" && kind != "custom" && kind != "function":
		r.fail(noTag(at+".type", kind, "'custom', 'function'"))
	case t.Name == "":
		r.fail(invalid(at+".name", "field required"))
	case len(t.Name) > toolNameBytesMax || !toolName.MatchString(t.Name):
		r.fail(invalid(at+".name", "want letters, digits, '_', '-', '.' or ':', at most %d", toolNameBytesMax))
	case t.Schema == nil:
		r.fail(invalid(at+".input_schema", "field required, an object schema"))
	default:
		return true
	}
	return false
}

// changed reads the tool of a block that changes which are offered from there on. A reference changes nothing: all tools
// are offered anyway. A definition is one more tool of the request.
func (r *reader) changed(block string, tool []byte) {
	at, kind, definition := r.path()+".tool", "", []byte(nil)
	s := within(tool, at)
	s.object(func(name string) {
		switch name {
		case "type":
			kind = s.string()
		case "definition":
			definition = s.raw()
		default:
			s.skip()
		}
	})
	switch {
	case s.err != nil:
		r.fail(s.err)
	case strings.HasSuffix(kind, "_reference"):
	case block != "tool_addition" || kind != "tool_definition":
		r.fail(invalid(at+".type", "%q is not one of tool_reference, tool_definition, which only a tool_addition has", kind))
	case definition == nil:
		r.fail(invalid(at+".definition", "field required, a tool"))
	default:
		r.defined(definition, at+".definition")
	}
}

// defined reads the tool that a message defines.
func (r *reader) defined(definition []byte, at string) {
	s := within(definition, at)
	t, kind := s.tool()
	r.fail(s.err)
	if r.offered(t, kind, at) {
		r.added = append(r.added, t)
	}
}

// add puts the tools that messages define behind the others, or in the place of the one of the same name: the latest counts.
func (r *reader) add(q *Request) *abi.Error {
	if len(r.added) == 0 {
		return nil
	}
	places := map[string]int{}
	for i, t := range q.Tools {
		places[t.Name] = i
	}
	for _, t := range r.added {
		i, again := places[t.Name]
		switch {
		case again:
			t.At = q.Tools[i].At
			q.Tools[i] = t
		case len(q.Tools) == toolsMax:
			return tooManyTools()
		default:
			places[t.Name], t.At = len(q.Tools), r.listed
			r.listed++
			q.Tools = append(q.Tools, t)
		}
	}
	return nil
}

// tool reads one tool and says its type.
func (r *reader) tool() (t Tool, kind string) {
	r.object(func(name string) {
		if r.null() {
			return
		}
		switch name {
		case "type":
			kind = r.string()
		case "name":
			t.Name = r.string()
		case "description":
			t.Description = r.string()
		case "input_schema":
			t.Schema = r.schema()
			r.checkObjectSchema(t.Schema)
		default:
			r.skip()
		}
	})
	return t, kind
}

// checkObjectSchema refuses a tool schema that says it is not an object's.
func (r *reader) checkObjectSchema(schema []byte) {
	at := r.path()
	s := within(schema, at)
	s.object(func(name string) {
		if name != "type" {
			s.skip()
			return
		}
		if v := s.raw(); string(v) != `"object"` {
			r.fail(invalid(at+".type", "want \"object\""))
		}
	})
}
