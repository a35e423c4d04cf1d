package modelfile_test

import (
	"encoding/json"
	"testing"

	"corenode/engine/modelfile"
)

// TestReadPython: numbers that are none in JSON are null, and texts stay as they are.
func TestReadPython(t *testing.T) {
	for text, want := range map[string]string{
		`{"limit": [0.0, Infinity], "least":-Infinity,"x":NaN}`: `{"limit": [0.0, null], "least":null,"x":null}`,
		`{"a\"Infinity": "NaN \\", "b": [Infinity,NaN]}`:        `{"a\"Infinity": "NaN \\", "b": [null,null]}`,
		`{"a": 1}`: `{"a": 1}`,
	} {
		source := []byte(text)
		if got := modelfile.ReadPython(source); string(got) != want || !json.Valid(got) || string(source) != text {
			t.Errorf("%s: %s", text, got)
		}
	}
}
