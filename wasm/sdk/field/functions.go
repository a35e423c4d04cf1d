package field

import (
	"strconv"
	"strings"

	"corenode/wasm/sdk/scan"
)

// Functions as several protocols offer them to a model, and what else those
// protocols write alike.

// valueBytesMax bounds what an error message repeats of a client's value.
const valueBytesMax = 64

// Quoted repeats a client's value in a message.
func Quoted(value []byte) string { return `"` + Cut(string(value), valueBytesMax) + `"` }

// Tools reads an array of tools, {"type": "function", "function": {...}}, and
// appends the native ones to dst, each with a comma before it.
func (r *Reader) Tools(dst []byte) []byte {
	if !r.Open(scan.Array) {
		return dst
	}
	for r.S.Next() {
		if r.Open(scan.Object) {
			dst = r.tool(dst)
		}
	}
	return dst
}

// Only keeps, of native tools with a comma before each, those that the model may call: the ones
// of the names, as they read without escapes. missing is a name that no tool has, "" for none.
func Only(tools []byte, names []string) (some []byte, missing string) {
	left := make(map[string]bool, len(names)) // whether a tool is still to be found
	for _, name := range names {
		left[name] = true
	}
	var list, tool scan.Scanner
	list.Reset(append(append([]byte{'['}, tools[min(1, len(tools)):]...), ']'))
	for list.Open(); list.Next(); {
		raw := list.Raw()
		tool.Reset(raw)
		tool.Open()
		tool.Next() // to the name, which AppendTool writes first
		name, _ := tool.Text()
		if _, wanted := left[string(name)]; wanted {
			left[string(name)] = false
			some = append(append(some, ','), raw...)
		}
	}
	for _, name := range names {
		if left[name] {
			return some, name
		}
	}
	return some, ""
}

// tool reads one tool, whose object is open.
func (r *Reader) tool(dst []byte) []byte {
	var kind []byte
	offered := false
	from := len(dst)
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "type":
			kind = r.Text()
		case "function":
			offered = true
			dst = r.definition(dst[:from])
		}
	}
	switch {
	case len(kind) > 0 && string(kind) != "function":
		r.Fail(r.S.Path()+".type", Quoted(kind)+" is not supported: tools of type function only")
	case !offered:
		r.Fail(r.S.Path()+".function", "field required")
	}
	return dst
}

// definition reads a function that the model may call and appends the native
// tool, with a comma before it. What strict asks for, arguments that fit the
// schema, is what every call is held to as far as it can be.
func (r *Reader) definition(dst []byte) []byte {
	if !r.Open(scan.Object) {
		return dst
	}
	var called, description []byte
	schema := []byte(NoParameters)
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "name":
			called = r.Str()
		case "description":
			description = r.Str()
		case "strict":
			r.Bool()
		case "parameters":
			schema = r.Schema()
		}
	}
	if len(called) == 0 {
		r.Fail(r.S.Path()+".name", "field required")
	}
	return AppendTool(append(dst, ','), called, description, schema)
}

// Schema reads a JSON schema, an object.
func (r *Reader) Schema() []byte {
	if r.S.Kind() != scan.Object {
		r.Want("an object schema")
	}
	return r.S.Raw()
}

// Stops reads a stop sequence or an array of them, and appends the native ones to
// dst, each with a comma before it. alone says that there was no array.
func (r *Reader) Stops(dst []byte) (stops []byte, alone bool) {
	if r.S.Kind() == scan.String {
		return r.stop(dst), true
	}
	if r.S.Kind() != scan.Array {
		r.Want("a string or an array of strings")
	}
	for r.S.Open(); r.S.Next(); {
		dst = r.stop(dst)
	}
	return dst, false
}

func (r *Reader) stop(dst []byte) []byte {
	raw := r.Str()
	if len(raw) == 0 {
		r.Fail(r.S.Path(), "a stop sequence must not be empty")
	}
	return append(append(append(dst, ',', '"'), raw...), '"')
}

// Seed reads a seed, which unlike other integers may need all of 64 bits.
func (r *Reader) Seed() []byte {
	seed := r.Number()
	if strings.ContainsAny(string(seed), ".eE") {
		if _, ok := scan.Integer(seed); !ok {
			r.Fail(r.S.Path(), "want an integer")
		}
	}
	return seed
}

// AppendArray appends a member that is an array with a comma before it, of
// elements that have one each; nothing where there are none.
func AppendArray(dst []byte, name string, elements []byte) []byte {
	if len(elements) == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":[`...)
	return append(append(dst, elements[1:]...), ']')
}

// ToolPath turns the path tools.N.input_schema of a native body into the path
// of what Tools read: tools.N.function.parameters.
func ToolPath(native string) string {
	parts := strings.SplitN(native, ".", 4)
	if len(parts) < 3 || parts[2] == "type" {
		return native
	}
	if parts[2] == "input_schema" {
		parts[2] = "parameters"
	}
	parts[2] = "function." + parts[2]
	return strings.Join(parts, ".")
}

// Decimal is the text of a number.
func Decimal(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
