// Package grammartest judges constrained answers by a validator that is not ours.
package grammartest

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Validator compiles a JSON schema; what it returns says what is wrong with a JSON text by it.
func Validator(t testing.TB, schema string) func(text string) error {
	t.Helper()
	check, err := Compile(schema)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return check
}

// Compile is Validator for a schema that may be none.
func Compile(schema string) (check func(text string) error, err error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("tool:///s.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("tool:///s.json")
	if err != nil {
		return nil, err
	}
	return func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return s.Validate(v)
	}, nil
}
