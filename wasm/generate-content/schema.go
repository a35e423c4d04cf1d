package generatecontent

import (
	"bytes"
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// schema is one Schema of the protocol while it becomes a JSON schema: its types
// are in capitals, its integers may be texts, the values of its enums are texts
// whatever its type, and it says nullable where a JSON schema lists null.
type schema struct {
	out      []byte // members, each with a comma before it
	kind     string // the type in small letters
	anyOf    []byte // schemas, each with a comma before it
	enum     []byte // the text of an array
	nullable bool
	order    ordering // of the properties, whose text is in out
	// propertiesAt is where that text begins.
	propertiesAt int
}

// readSchema reads a Schema and returns the JSON schema.
func (r *request) readSchema() []byte {
	var s schema
	if !r.Open(scan.Object) {
		return nil
	}
	for r.S.NextMember() {
		r.schemaMember(&s, camel(r.S.Key()))
	}
	return s.json()
}

func (r *request) schemaMember(s *schema, name string) {
	switch name {
	case "type":
		s.kind = strings.ToLower(string(r.Text()))
	case "nullable":
		s.nullable = r.Bool()
	case "enum":
		if r.S.Kind() != scan.Array {
			r.Want("an array")
		}
		s.enum = r.S.Raw()
	case "anyOf":
		if r.Open(scan.Array) {
			for s.anyOf = s.anyOf[:0]; r.S.Next(); {
				s.anyOf = append(append(s.anyOf, ','), r.readSchema()...)
			}
		}
	case "items":
		s.add(name, r.readSchema())
	case "properties":
		var text []byte
		text, s.order.properties = r.readSchemas()
		s.add(name, text)
		s.propertiesAt = len(s.out) - len(text)
	case "defs", "$defs":
		text, _ := r.readSchemas()
		s.add("$defs", text)
	case "ref", "$ref":
		s.addText("$ref", r.Str())
	case "additionalProperties":
		if r.S.Kind() == scan.Object {
			s.add(name, r.readSchema())
		} else if r.Bool() {
			s.add(name, []byte("true"))
		} else {
			s.add(name, []byte("false"))
		}
	case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
		s.add(name, r.integerText())
	case "minimum", "maximum":
		s.add(name, r.Number())
	case "pattern", "description", "title":
		s.addText(name, r.Str())
	case "format":
		if format := r.Str(); string(format) != "enum" { // which says that there is an enum
			s.addText(name, format)
		}
	case "required", "default", "example":
		s.add(name, r.S.Raw())
	case "propertyOrdering":
		if r.S.Kind() != scan.Array {
			r.Want("an array")
		}
		s.order.names = r.S.Raw()
	default:
		r.unknown()
	}
}

// readSchemas reads an object whose values are Schemas, and says where its members are in the text.
func (r *request) readSchemas() (text []byte, members []property) {
	if !r.Open(scan.Object) {
		return nil, nil
	}
	var out []byte
	for r.S.Next() {
		out = append(out, ',')
		from := len(out)
		out = appendName(out, r.S.Key())
		value := len(out)
		out = append(out, r.readSchema()...)
		members = append(members, property{from, value, len(out)})
	}
	return enclosed('{', out, '}'), members
}

// integerText reads an integer of 0 or more, which may be a text as the protocol
// has those of 64 bits.
func (r *request) integerText() []byte {
	if r.S.Kind() != scan.String {
		_, text := r.Integer(0, "an integer")
		return text
	}
	text := r.Text()
	r.In.Reset(text)
	if n, ok := r.In.Int(); !ok || n < 0 || !r.In.End() {
		r.Fail(r.S.Path(), field.Quoted(text)+" is not an integer of 0 or more")
	}
	return bytes.TrimSpace(text)
}

func (s *schema) add(name string, value []byte) { s.out = field.AppendMember(s.out, name, value) }

func (s *schema) addText(name string, raw []byte) {
	s.add(name, append(append([]byte{'"'}, raw...), '"'))
}

// json is the JSON schema, once all members were read.
func (s *schema) json() []byte {
	s.order.put(s.out[s.propertiesAt:])
	switch {
	case s.kind == "" || s.kind == "type_unspecified":
	case s.nullable && s.kind != "null":
		s.add("type", append(abi.AppendEscaped([]byte(`["`), s.kind), `","null"]`...))
	default:
		s.add("type", append(abi.AppendEscaped([]byte{'"'}, s.kind), '"'))
	}
	s.typeEnum()
	if s.nullable && len(s.enum) > 0 {
		s.enum = append(bytes.TrimRight(bytes.Clone(s.enum[:len(s.enum)-1]), " \t\r\n"), ",null]"...)
		if len(s.enum) == len("[,null]") {
			s.enum = []byte("[null]")
		}
	}
	s.add("enum", s.enum)
	if s.nullable && len(s.anyOf) > 0 {
		s.anyOf = append(s.anyOf, `,{"type":"null"}`...)
	}
	if len(s.anyOf) > 0 {
		s.add("anyOf", enclosed('[', s.anyOf, ']'))
	}
	return enclosed('{', s.out, '}')
}

// typeEnum gives the values of an enum the type of the schema, where they are texts of one.
func (s *schema) typeEnum() {
	if s.kind != "integer" && s.kind != "number" && s.kind != "boolean" || len(s.enum) == 0 {
		return
	}
	var list scan.Scanner
	var out []byte
	list.Reset(s.enum)
	for list.Open(); list.Next(); {
		value := list.Raw()
		if value[0] == '"' && s.typed(value[1:len(value)-1]) {
			value = value[1 : len(value)-1]
		}
		out = append(append(out, ','), value...)
	}
	s.enum = enclosed('[', out, ']')
}

// typed says whether a text is a value of the schema's type.
func (s *schema) typed(text []byte) bool {
	var value scan.Scanner
	value.Reset(text)
	ok := false
	switch s.kind {
	case "integer":
		_, ok = value.Int()
	case "number":
		_, ok = value.Number()
	case "boolean":
		_, ok = value.Bool()
	}
	return ok && value.End()
}

// enclosed puts brackets around a list whose items each have a comma before them.
func enclosed(left byte, list []byte, right byte) []byte {
	out := []byte{left}
	if len(list) > 0 {
		out = append(out, list[1:]...)
	}
	return append(out, right)
}
