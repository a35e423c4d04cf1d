package engine

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// place is what a JSON value of a schema is.
type place uint8

const (
	placeData    place = iota // a value that the schema is about, or an annotation's
	placeSchema               // a schema
	placeSchemas              // schemas by name
)

// schemaPlaces are the keywords whose values are schemas, lists of them, or schemas by name (JSON
// Schema 2020-12 and the drafts before it). What stands below any other one is data.
var schemaPlaces = map[string]place{
	"properties": placeSchemas, "patternProperties": placeSchemas, "$defs": placeSchemas, "definitions": placeSchemas,
	"dependentSchemas": placeSchemas, "dependencies": placeSchemas,
	"items": placeSchema, "prefixItems": placeSchema, "additionalItems": placeSchema,
	"contains": placeSchema, "unevaluatedItems": placeSchema,
	"additionalProperties": placeSchema, "unevaluatedProperties": placeSchema, "propertyNames": placeSchema,
	"allOf": placeSchema, "anyOf": placeSchema, "oneOf": placeSchema, "not": placeSchema, "if": placeSchema,
	"then": placeSchema, "else": placeSchema,
	"contentSchema": placeSchema,
}

// Shown is a schema as models see it: without annotations that say nothing about a value, which
// generators of schemas write in all of them. $id goes unless a reference may be to it.
func Shown(schema json.RawMessage) json.RawMessage {
	drop := []string{"$schema", "$comment"}
	if !bytes.ContainsAny(schema, "$\\") { // a name may hide behind escapes
		return schema
	}
	if !refersByID(schema) {
		drop = append(drop, "$id")
	}
	repeated := jsontext.AllowDuplicateNames(true) // there are none: the text was checked when the body was parsed
	out := bytes.NewBuffer(make([]byte, 0, len(schema)))
	if rewrite(jsontext.NewEncoder(out, repeated), jsontext.NewDecoder(bytes.NewBuffer(schema), repeated), placeSchema, drop) != nil {
		return schema
	}
	return bytes.TrimSpace(out.Bytes())
}

// refersByID says whether a schema has a reference that is not to one of its own places.
func refersByID(schema json.RawMessage) (refers bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(schema), jsontext.AllowDuplicateNames(true))
	for {
		t, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if t.Kind() != '"' || !slices.Contains([]string{"$ref", "$dynamicRef", "$recursiveRef"}, t.String()) || dec.PeekKind() != '"' {
			continue
		}
		if to, err := dec.ReadToken(); err == nil && !strings.HasPrefix(to.String(), "#") {
			return true
		}
	}
}

// rewrite copies one value without the members of schemas in it that have a name of drop. A list has what its own place
// has; how deep it may be nested was bounded when the body was parsed.
func rewrite(enc *jsontext.Encoder, dec *jsontext.Decoder, at place, drop []string) error {
	kind := dec.PeekKind()
	if at == placeData || kind != '{' && kind != '[' {
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return enc.WriteValue(v)
	}
	open, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if err := enc.WriteToken(open); err != nil {
		return err
	}
	for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		below := at
		if kind == '{' {
			t, err := dec.ReadToken()
			if err != nil {
				return err
			}
			name := t.String()
			if at == placeSchema && slices.Contains(drop, name) {
				if err := dec.SkipValue(); err != nil {
					return err
				}
				continue
			}
			if err := enc.WriteToken(jsontext.String(name)); err != nil {
				return err
			}
			if below = placeSchema; at == placeSchema {
				below = schemaPlaces[name]
			}
		}
		if err := rewrite(enc, dec, below, drop); err != nil {
			return err
		}
	}
	end, err := dec.ReadToken()
	if err != nil {
		return err
	}
	return enc.WriteToken(end)
}
