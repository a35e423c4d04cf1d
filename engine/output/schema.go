package output

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Types is a set of JSON types. A number may be whole.
type Types uint8

// The types of a JSON schema.
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

// visitsMax bounds the schemas within the one of a tool that are looked at, and with it
// how deep references and unions are followed.
const visitsMax = 10_000

// schema is the JSON schema of a tool's parameters while their types are looked up.
type schema struct {
	root   map[string]any
	known  map[string]Types // of references
	visits int
}

// readSchema decodes a schema as a whole, so that its references cost no more decoding.
func readSchema(raw json.RawMessage) *schema {
	s := &schema{known: map[string]Types{}}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()         // any number is one
	_ = d.Decode(&s.root) // what is no object has no members
	return s
}

// ParameterTypes returns the types that a tool's schema allows for each parameter that it
// names: what the text of a parameter in a call is read as; none known means string. ok is
// false where the schema has more alternatives than are looked at: then some are missing,
// always the same. It takes time in proportion to the schema.
func ParameterTypes(raw json.RawMessage) (types map[string]Types, ok bool) {
	s := readSchema(raw)
	properties, _ := s.root["properties"].(map[string]any)
	types = make(map[string]Types, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		types[name] = s.types(properties[name])
	}
	return types, s.visits <= visitsMax
}

// appendValue writes the text of a parameter as the JSON value that its schema
// asks for: null, a boolean, a number, an array or an object if it reads as
// one and that type is allowed, in this order; else a string.
// Exact says that a string may be "null". None is null too, where that may be and a string may not.
func appendValue(b []byte, text string, allowed Types, exact bool) []byte {
	trimmed := strings.Trim(text, space)
	if strings.EqualFold(trimmed, "null") && !(exact && allowed&TypeString != 0 && allowed&TypeNull == 0) {
		return append(b, "null"...)
	}
	if trimmed == "None" && allowed&(TypeNull|TypeString) == TypeNull {
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
	if value, ok := readComposite(trimmed, allowed); ok {
		return append(b, value...)
	}
	return appendString(b, text)
}

// types returns the types that a schema allows; none known means string.
func (s *schema) types(of any) Types {
	if s.visits++; s.visits > visitsMax {
		return 0
	}
	n, _ := of.(map[string]any)
	if k := typesOf(n["type"]); k != 0 {
		return k
	}
	var k Types
	if ref, ok := n["$ref"].(string); ok {
		k |= s.reference(ref)
	}
	for _, union := range []string{"anyOf", "oneOf", "allOf"} {
		alternatives, _ := n[union].([]any)
		for _, alternative := range alternatives {
			k |= s.types(alternative)
		}
	}
	values, _ := n["enum"].([]any)
	for _, v := range values {
		k |= typeOf(v)
	}
	if v, ok := n["const"]; ok {
		k |= typeOf(v)
	}
	if k == 0 && n["properties"] != nil {
		k = TypeObject
	}
	if k == 0 && n["items"] != nil {
		k = TypeArray
	}
	return k
}

// reference returns the types that a reference allows. Each is followed once, and
// within what it leads to itself it allows nothing more.
func (s *schema) reference(ref string) Types {
	k, known := s.known[ref]
	if !known {
		s.known[ref] = 0
		k = s.types(s.resolve(ref))
		s.known[ref] = k
	}
	return k
}

// typesOf reads the type keyword: a name or a list of names.
func typesOf(keyword any) Types {
	if name, ok := keyword.(string); ok {
		return typeNames[name]
	}
	var k Types
	names, _ := keyword.([]any)
	for _, v := range names {
		name, _ := v.(string)
		k |= typeNames[name]
	}
	return k
}

// typeOf returns the type of a JSON value.
func typeOf(v any) Types {
	switch v.(type) {
	case string:
		return TypeString
	case bool:
		return TypeBoolean
	case nil:
		return TypeNull
	case []any:
		return TypeArray
	case map[string]any:
		return TypeObject
	}
	return TypeNumber
}

var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

// resolve follows a reference within the same schema, such as #/$defs/Point.
func (s *schema) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	var at any = s.root
	for step := range strings.SplitSeq(path, "/") {
		in, _ := at.(map[string]any)
		at = in[pointerUnescape.Replace(step)]
	}
	return at
}

// readNumber reads a number and returns it as JSON. Whole takes only whole
// ones, also if they are written with a fraction of zero.
func readNumber(text string, whole bool) (string, bool) {
	if len(text) > numberMax || strings.ContainsAny(text, "xX_") {
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
	if strings.HasPrefix(text, "[") && allowed&TypeArray != 0 || strings.HasPrefix(text, "{") && allowed&TypeObject != 0 {
		return Normal([]byte(text))
	}
	return "", false
}
