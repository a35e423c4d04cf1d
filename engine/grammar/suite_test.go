package grammar_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/engine/grammar"
	"corenode/engine/grammar/grammartest"
)

// suiteFolder is a folder of the JSON-Schema-Test-Suite's drafts: the one that the
// environment names, or that of a Go module which carries it, if it is in the cache.
func suiteFolder(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv("JSON_SCHEMA_TEST_SUITE"); folder != "" {
		return folder
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err == nil {
		found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(cache)), "github.com/google/jsonschema-go@*/jsonschema/testdata"))
		if len(found) > 0 {
			return found[len(found)-1]
		}
	}
	t.Skip("no JSON-Schema-Test-Suite: set JSON_SCHEMA_TEST_SUITE to its folder tests, or run go mod download github.com/google/jsonschema-go@v0.4.2")
	return ""
}

// suiteGroup is one schema of the suite with documents that it accepts or rejects.
type suiteGroup struct {
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Tests       []struct {
		Description string          `json:"description"`
		Data        json.RawMessage `json:"data"`
		Valid       bool            `json:"valid"`
	} `json:"tests"`
}

// acceptedShare is how many of the suite's schemas have a grammar, at the least. The
// others refer to other documents, or say that no value is valid.
const acceptedShare = 0.90

// TestSuite holds every document of the JSON-Schema-Test-Suite against the grammar of
// its schema. One that the suite rejects is not of the grammar either, unless the schema
// without the keywords that are reported as ignored would accept it, as another validator
// says.
func TestSuite(t *testing.T) {
	folder := suiteFolder(t)
	_, v := tokens()
	for draft, uri := range map[string]string{
		"draft2020-12": "https://json-schema.org/draft/2020-12/schema", "draft7": "http://json-schema.org/draft-07/schema#",
	} {
		files, err := filepath.Glob(filepath.Join(folder, draft, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no %s (%v)", folder, draft, err)
		}
		schemas, accepted, rejected, passed, kept := 0, 0, 0, 0, 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var groups []suiteGroup
			if err := json.Unmarshal(text, &groups); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, g := range groups {
				schemas++
				name := draft + "/" + filepath.Base(file) + ": " + g.Description
				compiled, err := grammar.Compile(grammar.Form{Text: g.Schema})
				if err != nil {
					t.Logf("%s: %v", name, err)
					continue
				}
				accepted++
				for _, c := range g.Tests {
					if c.Valid {
						passed++
						if taken(compiled, v, c.Data) {
							kept++
						}
						continue
					}
					rejected++
					if taken(compiled, v, c.Data) && !explained(t, uri, g.Schema, compiled.Ignored(), c.Data) {
						t.Errorf("%s: %s: %s is accepted, %v is reported as ignored", name, c.Description, c.Data, compiled.Ignored())
					}
				}
			}
		}
		share := float64(accepted) / float64(schemas)
		t.Logf("%s: %d schemas, %.1f %% have a grammar; of them %d documents are invalid; %d of %d valid ones are of the grammar", draft, schemas, 100*share, rejected, kept, passed)
		if share < acceptedShare {
			t.Errorf("%s: %.1f %% of the schemas have a grammar, want %.0f %%", draft, 100*share, 100*acceptedShare)
		}
	}
}

// taken says whether a document, with its members in any order, is of a grammar.
func taken(g *grammar.Grammar, v *grammar.Vocabulary, data json.RawMessage) bool {
	return slices.ContainsFunc(orders(data), func(text string) bool {
		m := g.NewMatcher(v)
		for i := range len(text) {
			if !m.Allows(int32(text[i])) {
				return false
			}
			m.Accept(int32(text[i]))
		}
		return m.Complete()
	})
}

// orders are the texts of a document with the members of its outermost object in any
// order; of one with many only the one that it has.
func orders(data json.RawMessage) []string {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || len(members) > 5 || members == nil {
		var compact strings.Builder
		encode := json.NewEncoder(&compact)
		encode.SetEscapeHTML(false)
		_ = encode.Encode(data)
		return []string{strings.TrimSpace(compact.String())}
	}
	var names []string
	for name := range members {
		names = append(names, name)
	}
	var out []string
	var arrange func(text string, rest []string)
	arrange = func(text string, rest []string) {
		if len(rest) == 0 {
			out = append(out, "{"+strings.TrimPrefix(text, ",")+"}")
		}
		for i, name := range rest {
			key, _ := json.Marshal(name)
			for _, value := range orders(members[name]) {
				arrange(text+","+string(key)+":"+value, slices.Delete(slices.Clone(rest), i, i+1))
			}
		}
	}
	arrange("", names)
	return out
}

// explained says whether a schema accepts a document once the keywords are taken out of it.
func explained(t *testing.T, draft string, schema json.RawMessage, ignored []string, data json.RawMessage) bool {
	var s any
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	gone := map[string]bool{}
	for _, keywords := range ignored {
		for _, keyword := range strings.Split(keywords, " and ") {
			gone[keyword] = true
		}
	}
	s = without(s, gone)
	if of, ok := s.(map[string]any); ok && of["$schema"] == nil {
		of["$schema"] = draft
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return grammartest.Validator(t, string(text))(string(data)) == nil
}

// without is a schema without some keywords; of oneOf it is left that one has to hold.
func without(schema any, gone map[string]bool) any {
	switch s := schema.(type) {
	case []any:
		for i := range s {
			s[i] = without(s[i], gone)
		}
	case map[string]any:
		for name, v := range s {
			switch name {
			case "enum", "const":
				continue
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
				if of, ok := v.(map[string]any); ok && !gone[name] {
					for k := range of {
						of[k] = without(of[k], gone)
					}
				}
			default:
				s[name] = without(v, gone)
			}
		}
		if one, ok := s["oneOf"]; ok && gone["oneOf"] {
			all, _ := s["allOf"].([]any)
			s["allOf"] = append(all, map[string]any{"anyOf": one})
		}
		for name := range gone {
			delete(s, name)
		}
	}
	return schema
}
