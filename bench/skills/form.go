package skills

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// forms are the compiled schemas of a case. A validator that is not the engine's judges what the engine constrained.
type forms struct {
	answer *jsonschema.Schema            // nil: any text
	tools  map[string]*jsonschema.Schema // of the arguments, by the tool's name
}

// compileForms compiles what a case has of schemas.
func compileForms(c Case) (f forms, err error) {
	if c.Expect.Schema != nil {
		if f.answer, err = compile(c.Expect.Schema); err != nil {
			return f, fmt.Errorf("its schema: %w", err)
		}
	}
	var tools []struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input_schema"`
	}
	if raw := c.Body["tools"]; raw != nil {
		if err := json.Unmarshal(raw, &tools); err != nil {
			return f, fmt.Errorf("its tools: %w", err)
		}
	}
	f.tools = make(map[string]*jsonschema.Schema, len(tools))
	for _, t := range tools {
		if f.tools[t.Name], err = compile(t.Input); err != nil {
			return f, fmt.Errorf("its tool %s: %w", t.Name, err)
		}
	}
	return f, nil
}

func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

// fits says what is wrong with a JSON text by a schema.
func fits(s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// Judge says what is wrong with an answer; nothing is empty.
func (c Case) Judge(a Answer) string {
	if fault := c.Expect.Judge(a); fault != "" || c.forms.answer == nil {
		return fault
	}
	if err := fits(c.forms.answer, a.Text); err != nil {
		return fmt.Sprintf("the text is not of the schema: %v", err)
	}
	return ""
}

// validCalls counts the calls of an answer that are of a tool on offer and of its schema.
func (c Case) validCalls(a Answer) (n int) {
	for _, call := range a.Calls {
		if s := c.forms.tools[call.Name]; s != nil && fits(s, string(call.Input)) == nil {
			n++
		}
	}
	return n
}
