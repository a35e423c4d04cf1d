package parse

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// kinds is the set of JSON types that a schema allows.
type kinds uint8

const (
	kindString kinds = 1 << iota
	kindBoolean
	kindInteger
	kindNumber
	kindArray
	kindObject
	kindNull
)

var kindNames = map[string]kinds{
	"string": kindString, "boolean": kindBoolean, "integer": kindInteger,
	"number": kindNumber, "array": kindArray, "object": kindObject, "null": kindNull,
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

// appendValue writes the text of a parameter as the JSON value that its schema
// asks for: null, a boolean, a number, an array or an object if it reads as
// one and that type is allowed, in this order; else a string.
func (s *schema) appendValue(b []byte, name, text string) []byte {
	trimmed := strings.Trim(text, space)
	allowed := s.kinds(s.properties[name], 0)
	if strings.EqualFold(trimmed, "null") && !(s.exact && allowed&kindString != 0 && allowed&kindNull == 0) {
		return append(b, "null"...)
	}
	if allowed&kindBoolean != 0 && (strings.EqualFold(trimmed, "true") || strings.EqualFold(trimmed, "false")) {
		return append(b, strings.ToLower(trimmed)...)
	}
	if allowed&(kindInteger|kindNumber) != 0 {
		if number, ok := readNumber(trimmed, allowed&kindNumber == 0); ok {
			return append(b, number...)
		}
	}
	if allowed&(kindArray|kindObject) != 0 {
		if value, ok := readComposite(trimmed, allowed); ok {
			return append(b, value...)
		}
	}
	return appendString(b, text)
}

// kinds returns the types that a schema allows; none known means string.
func (s *schema) kinds(raw json.RawMessage, depth int) kinds {
	var n node
	s.alternatives++
	if depth > schemaDepthMax || s.alternatives > unionMax || json.Unmarshal(raw, &n) != nil {
		return 0
	}
	if k := typeKinds(n.Type); k != 0 {
		return k
	}
	var k kinds
	if n.Ref != "" {
		k |= s.kinds(s.resolve(n.Ref), depth+1)
	}
	for _, list := range [][]json.RawMessage{n.AnyOf, n.OneOf, n.AllOf} {
		for _, alternative := range list {
			k |= s.kinds(alternative, depth+1)
		}
	}
	for _, v := range append(n.Enum, n.Const) {
		k |= kindOf(v)
	}
	if k == 0 && n.Properties != nil {
		k = kindObject
	}
	if k == 0 && n.Items != nil {
		k = kindArray
	}
	return k
}

// typeKinds reads the type keyword: a name or a list of names.
func typeKinds(raw json.RawMessage) kinds {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return kindNames[name]
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		return 0
	}
	var k kinds
	for _, name := range names {
		k |= kindNames[name]
	}
	return k
}

// kindOf returns the type of a JSON value.
func kindOf(raw json.RawMessage) kinds {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0
	}
	switch raw[0] {
	case '"':
		return kindString
	case 't', 'f':
		return kindBoolean
	case 'n':
		return kindNull
	case '[':
		return kindArray
	case '{':
		return kindObject
	}
	return kindNumber
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

func readComposite(text string, allowed kinds) (string, bool) {
	if text == "" || text[0] == '[' && allowed&kindArray == 0 || text[0] == '{' && allowed&kindObject == 0 {
		return "", false
	}
	if text[0] != '[' && text[0] != '{' {
		return "", false
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return "", false
	}
	return b.String(), true
}
