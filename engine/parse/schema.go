package parse

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Types is a set of JSON types. A number may be whole.
type Types uint8

const (
	TypeString Types = 1 << iota
	TypeBoolean
	TypeInteger
	TypeNumber
	TypeArray
	TypeObject
	TypeNull
)

var typeNames = map[string]Types{
	"string": TypeString, "boolean": TypeBoolean, "integer": TypeInteger,
	"number": TypeNumber, "array": TypeArray, "object": TypeObject, "null": TypeNull,
}

// schemaDepthMax bounds the nesting of references and unions that are followed.
const schemaDepthMax = 16

// unionMax bounds how many alternatives of a parameter are looked at, all levels together.
const unionMax = 1000

// schema is what is read of the JSON schema of a tool's parameters.
type schema struct {
	properties   map[string]json.RawMessage
	root         map[string]json.RawMessage // of $ref
	alternatives int
	exact        bool // a string may be "null"
}

// node is one schema inside of another, as far as types go.
type node struct {
	Type       json.RawMessage   `json:"type"`
	Ref        string            `json:"$ref"`
	AnyOf      []json.RawMessage `json:"anyOf"`
	OneOf      []json.RawMessage `json:"oneOf"`
	AllOf      []json.RawMessage `json:"allOf"`
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Properties json.RawMessage   `json:"properties"`
	Items      json.RawMessage   `json:"items"`
}

func readSchema(raw json.RawMessage) *schema {
	s := &schema{}
	if json.Unmarshal(raw, &s.root) != nil {
		return s
	}
	if json.Unmarshal(s.root["properties"], &s.properties) != nil {
		s.properties = nil
	}
	return s
}

// ParameterTypes returns the types that a tool's schema allows for each parameter that it
// names: what the text of a parameter in a call is read as; none known means string. ok is
// false where the schema has more alternatives than a call's parameters are looked up in.
func ParameterTypes(raw json.RawMessage) (types map[string]Types, ok bool) {
	s := readSchema(raw)
	types = make(map[string]Types, len(s.properties))
	for name, property := range s.properties {
		types[name] = s.types(property, 0)
	}
	return types, s.alternatives <= unionMax
}

// appendValue writes the text of a parameter as the JSON value that its schema
// asks for: null, a boolean, a number, an array or an object if it reads as
// one and that type is allowed, in this order; else a string.
func (s *schema) appendValue(b []byte, name, text string) []byte {
	trimmed := strings.Trim(text, space)
	allowed := s.types(s.properties[name], 0)
	if strings.EqualFold(trimmed, "null") && !(s.exact && allowed&TypeString != 0 && allowed&TypeNull == 0) {
		return append(b, "null"...)
	}
	if allowed&TypeBoolean != 0 && (strings.EqualFold(trimmed, "true") || strings.EqualFold(trimmed, "false")) {
		return append(b, strings.ToLower(trimmed)...)
	}
	if allowed&(TypeInteger|TypeNumber) != 0 {
		if number, ok := readNumber(trimmed, allowed&TypeNumber == 0); ok {
			return append(b, number...)
		}
	}
	if allowed&(TypeArray|TypeObject) != 0 {
		if value, ok := readComposite(trimmed, allowed); ok {
			return append(b, value...)
		}
	}
	return appendString(b, text)
}

// types returns the types that a schema allows; none known means string.
func (s *schema) types(raw json.RawMessage, depth int) Types {
	var n node
	s.alternatives++
	if depth > schemaDepthMax || s.alternatives > unionMax || json.Unmarshal(raw, &n) != nil {
		return 0
	}
	if k := typesOf(n.Type); k != 0 {
		return k
	}
	var k Types
	if n.Ref != "" {
		k |= s.types(s.resolve(n.Ref), depth+1)
	}
	for _, list := range [][]json.RawMessage{n.AnyOf, n.OneOf, n.AllOf} {
		for _, alternative := range list {
			k |= s.types(alternative, depth+1)
		}
	}
	for _, v := range append(n.Enum, n.Const) {
		k |= typeOf(v)
	}
	if k == 0 && n.Properties != nil {
		k = TypeObject
	}
	if k == 0 && n.Items != nil {
		k = TypeArray
	}
	return k
}

// typesOf reads the type keyword: a name or a list of names.
func typesOf(raw json.RawMessage) Types {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return typeNames[name]
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		return 0
	}
	var k Types
	for _, name := range names {
		k |= typeNames[name]
	}
	return k
}

// typeOf returns the type of a JSON value.
func typeOf(raw json.RawMessage) Types {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0
	}
	switch raw[0] {
	case '"':
		return TypeString
	case 't', 'f':
		return TypeBoolean
	case 'n':
		return TypeNull
	case '[':
		return TypeArray
	case '{':
		return TypeObject
	}
	return TypeNumber
}

// resolve follows a reference within the same schema, such as #/$defs/Point.
func (s *schema) resolve(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	at := s.root
	steps := strings.Split(path, "/")
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for i, step := range steps {
		raw := at[unescape.Replace(step)]
		if i == len(steps)-1 {
			return raw
		}
		at = nil
		if json.Unmarshal(raw, &at) != nil {
			return nil
		}
	}
	return nil
}

// readNumber reads a number and returns it as JSON. Whole takes only whole
// ones, also if they are written with a fraction of zero.
func readNumber(text string, whole bool) (string, bool) {
	if len(text) > numberMax || strings.ContainsAny(text, "xXpP_") {
		return "", false
	}
	if n, ok := new(big.Int).SetString(text, 10); ok {
		return n.String(), true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	if whole {
		if f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return "", false
		}
		return strconv.FormatInt(int64(f), 10), true
	}
	if json.Valid([]byte(text)) {
		return text, true
	}
	out, _ := json.Marshal(f) // finite
	return string(out), true
}

// numberMax is the longest number that is read as one, in bytes.
const numberMax = 1000

func readComposite(text string, allowed Types) (string, bool) {
	if text == "" || text[0] == '[' && allowed&TypeArray == 0 || text[0] == '{' && allowed&TypeObject == 0 {
		return "", false
	}
	if text[0] != '[' && text[0] != '{' {
		return "", false
	}
	return normal([]byte(text))
}
