package guest

import (
	"fmt"
	"strings"
	"testing"
)

func manifestWith(schema string) (Manifest, error) {
	return ParseManifest(fmt.Appendf(nil,
		`{"name": "gate", "kind": "admission", "version": "1.0.0", "abi": "1.1", "config_schema": %s}`, schema))
}

// TestConfigSchema: what a configuration may say is what the schema says, and an
// error names the place and the reason.
func TestConfigSchema(t *testing.T) {
	m, err := manifestWith(`{"type": "object", "additionalProperties": false, "required": ["percent"], "properties": {
		"percent": {"type": "integer", "minimum": 0, "maximum": 99, "description": "off the listed prices"},
		"accounts": {"type": "object", "additionalProperties": {"type": "string", "enum": ["gold", "silver"]}},
		"hours": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ config, says string }{
		{`{"percent": 99}`, ""},
		{`{"percent": 0, "accounts": {"a": "gold"}, "hours": [1, 2]}`, ""},
		{``, "configuration: missing property 'percent'"},
		{`{"percent": 100}`, "configuration.percent: maximum: got 100, want 99"},
		{`{"percent": 9007199254740993.5}`, "configuration.percent: got number, want integer"},
		{`{"percent": 1, "accounts": {"b": "tin"}}`, "configuration.accounts.b: value must be one of 'gold', 'silver'"},
		{`{"percent": 1, "hours": [1, "2"]}`, "configuration.hours.1: got string, want integer"},
		{`{"percent": 1, "hours": [1, 2, 3], "colour": 1}`, "additional properties 'colour' not allowed"},
	} {
		config, err := Config([]byte(c.config))
		if err == nil {
			err = m.CheckConfig(config)
		}
		switch {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", c.config, err, c.says)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: its error has several lines: %v", c.config, err)
		}
	}
	if err := new(Manifest).CheckConfig([]byte(`{"a": 1}`)); err != nil {
		t.Error("without a schema a configuration was refused:", err)
	}
}

// TestConfigSchemaBounds: what is beyond the subset is refused by name.
func TestConfigSchemaBounds(t *testing.T) {
	deep := strings.Repeat(`{"type": "array", "items": `, schemaDepthMax+1) + "true" + strings.Repeat("}", schemaDepthMax+1)
	for _, c := range []struct{ schema, says string }{
		{`{"type": "object", "$ref": "http://127.0.0.1/x"}`, `config_schema: "$ref" is not taken here`},
		{`{"type": "object", "properties": {"a": {"type": "string", "pattern": "(a*)*"}}}`, `config_schema.properties.a: "pattern"`},
		{`{"type": "object", "additionalProperties": {"anyOf": []}}`, `config_schema.additionalProperties: "anyOf"`},
		{`{"type": "object", "properties": {"a": {"type": "integr"}}}`, "config_schema.properties.a.type"},
		{`{"type": "object", "properties": {"a": {"minimum": "1"}}}`, "config_schema.properties.a.minimum"},
		{`{"type": "object", "properties": {"a": 1}}`, "config_schema.properties.a is no schema"},
		{`{"type": "array"}`, `want "type": "object"`},
		{`true`, `want "type": "object"`},
		{`null`, "config_schema is no schema"},
		{`[]`, "config_schema is no schema"},
		{`{"type": "object", "properties": {"a": ` + deep + `}}`, "nest at most"},
		{`{"type": "object", "title": "` + strings.Repeat("x", schemaBytesMax) + `"}`, "bytes, at most"},
	} {
		if _, err := manifestWith(c.schema); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.100s: %v, want %q", c.schema, err, c.says)
		}
	}
}
