package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A module's manifest may say in config_schema what its configuration looks like. It
// is a JSON Schema of the draft 2020-12, of the words below only: what they mean needs
// no other document, and a form can be made of them. The root is an object.

// schemaBytesMax and schemaDepthMax bound a schema.
const schemaBytesMax, schemaDepthMax = 16 << 10, 16

// schemaWords are the keywords of the subset, in the order in which they are documented.
var schemaWords = []string{"type", "properties", "required", "additionalProperties", "minProperties", "maxProperties",
	"items", "minItems", "maxItems", "enum", "const", "minimum", "maximum", "minLength", "maxLength",
	"title", "description", "default", "examples"}

// configSchema compiles the schema of a manifest, which has one.
func configSchema(text []byte) (*jsonschema.Schema, error) {
	if len(text) > schemaBytesMax {
		return nil, fmt.Errorf("config_schema has %d bytes, at most %d", len(text), schemaBytesMax)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("config_schema: %w", err)
	}
	if err := checkWords("config_schema", doc, 0); err != nil {
		return nil, err
	}
	if root, _ := doc.(map[string]any); root["type"] != "object" {
		return nil, errors.New(`config_schema: a configuration is an object, want "type": "object"`)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		return nil, fmt.Errorf("config_schema: %w", err)
	}
	s, err := c.Compile("config.json")
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return nil, violations("config_schema", invalid.Err)
	}
	return s, err
}

// checkWords refuses a schema that says what is not among schemaWords.
func checkWords(path string, schema any, depth int) error {
	object, ok := schema.(map[string]any)
	if _, always := schema.(bool); always {
		return nil
	}
	if !ok {
		return fmt.Errorf("%s is no schema: want an object, true or false", path)
	}
	if depth > schemaDepthMax {
		return fmt.Errorf("%s: schemas nest at most %d deep", path, schemaDepthMax)
	}
	var errs []error
	for _, word := range slices.Sorted(maps.Keys(object)) {
		at := path + "." + word
		switch {
		case !slices.Contains(schemaWords, word):
			errs = append(errs, fmt.Errorf("%s: %q is not taken here, only %s", path, word, strings.Join(schemaWords, ", ")))
		case word == "items" || word == "additionalProperties":
			errs = append(errs, checkWords(at, object[word], depth+1))
		case word == "properties":
			members, _ := object[word].(map[string]any) // that it is one is the compiler's to say
			for _, name := range slices.Sorted(maps.Keys(members)) {
				errs = append(errs, checkWords(at+"."+name, members[name], depth+1))
			}
		}
	}
	return errors.Join(errs...)
}

// CheckConfig holds a configuration, as Config gives it, to the manifest's schema.
// The error is a *LoadError that names each place and what is wrong there.
func (m *Manifest) CheckConfig(config []byte) error {
	if m.ConfigSchema == nil {
		return nil
	}
	if config == nil {
		config = []byte("{}")
	}
	schema, err := configSchema(m.ConfigSchema)
	if err != nil { // the manifest was parsed, so this does not happen
		return Refused("manifest", fixManifest, "%w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return Refused("config", "correct the configuration; corenode module show prints its schema", "%w",
			violations("configuration", err))
	}
	return nil
}

// violations lists what does not fit a schema, by its place below root.
func violations(root string, err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	return errors.New(strings.Join(appendViolations(nil, root, invalid), "; "))
}

func appendViolations(all []string, root string, e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		place := strings.Join(append([]string{root}, e.InstanceLocation...), ".")
		return append(all, fmt.Sprintf("%s: %s", place, e.BasicOutput().Error))
	}
	for _, cause := range e.Causes {
		all = appendViolations(all, root, cause)
	}
	return all
}

// compactSchema is a schema as it is written again: without white space, and with
// what a page must escape escaped. What is no JSON stays for configSchema to refuse.
func compactSchema(text json.RawMessage) json.RawMessage {
	if compact, err := json.Marshal(text); err == nil && text != nil {
		return compact
	}
	return text
}
