package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/engine/modelfile"
)

// TestModelVerify: a whole file passes; a value that is no number is named with its tensor, and a file
// that is cut does not pass.
func TestModelVerify(t *testing.T) {
	const whole = "../../engine/model/testdata/parity/tiny-qwen3-f16.gguf"
	if out, err := typed("model", "verify", whole); err != nil || !strings.Contains(out, "architecture qwen3") {
		t.Fatalf("%q, %v", out, err)
	}
	f, err := modelfile.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	spoiled := f.Tensors()[0]
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cut, broken := filepath.Join(t.TempDir(), "cut.gguf"), filepath.Join(t.TempDir(), "broken.gguf")
	if err := os.WriteFile(cut, text[:len(text)-4096], 0o600); err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), string(spoiled.Bytes()[:64]))
	f.Close()
	for i := range 4 { // no number, as f16 and as f32
		text[at+i] = 0xff
	}
	if err := os.WriteFile(broken, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("model", "verify", broken); err == nil || !strings.Contains(err.Error(), "tensor "+spoiled.Name+": value 0 is NaN") {
		t.Errorf("a value that is no number: %v", err)
	}
	if _, err := typed("model", "verify", cut); err == nil {
		t.Error("a file that is cut passes")
	}
}
