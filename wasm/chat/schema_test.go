package chat_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// schemas opens the public schemas of the protocol, when the file with them is there.
func schemas(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	shared := os.Getenv("CORENODE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	file, err := os.Open(filepath.Join(shared, "data", "openai.schemas.json"))
	if err != nil {
		t.Skipf("no schemas: %v", err)
	}
	defer func() { _ = file.Close() }()
	all, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("openai.json", all); err != nil {
		t.Fatal(err)
	}
	return c
}

func schema(t *testing.T, c *jsonschema.Compiler, name string) *jsonschema.Schema {
	t.Helper()
	s, err := c.Compile("openai.json#/$defs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAnswersFitTheSchemas holds every body and chunk that the vectors make
// against the schema of what a client library expects.
func TestAnswersFitTheSchemas(t *testing.T) {
	c := schemas(t)
	whole, chunk := schema(t, c, "CreateChatCompletionResponse"), schema(t, c, "CreateChatCompletionStreamResponse")
	counted := map[*jsonschema.Schema]int{}
	fits := func(s *jsonschema.Schema, text []byte) {
		counted[s]++
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	spy := func(op abi.Op, in []byte) ([]byte, error) {
		frame, err := native(op, in)
		if out, e := abi.ParseOutput(frame); e == nil && op == abi.OpResponse {
			fits(whole, out.Payload)
		} else if w, e := abi.ParseWritten(out.Payload); e == nil && op == abi.OpEvents {
			for _, line := range strings.Split(string(w.Bytes), "\n") {
				if data, is := strings.CutPrefix(line, "data: "); is && data != "[DONE]" {
					fits(chunk, []byte(data))
				}
			}
		}
		return frame, err
	}
	for _, dir := range vectorDirs {
		files, err := vector.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			for i := range f.Vectors {
				if op := f.Vectors[i].Op; op == "stream" || op == "response" {
					if err := f.Vectors[i].Run(spy, false); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	if counted[whole] == 0 || counted[chunk] == 0 {
		t.Fatalf("%d answers and %d chunks were held against their schemas", counted[whole], counted[chunk])
	}
}
