package guest

import (
	"strings"
	"testing"

	"corenode/extensions/meter/wasmtest"
)

// TestEngineRefuses: what the engine has against a module is said in the same
// words, wherever it runs.
func TestEngineRefuses(t *testing.T) {
	bad := &wasmtest.Module{}
	bad.Func("", nil, []byte{wasmtest.I32}, nil, wasmtest.Asm()) // gives no number
	_, _, here := compile(bad.Bytes(), "", false)
	var there strings.Builder
	if err := compileInto(strings.NewReader(string(bad.Bytes())), t.TempDir(), &there); err != nil || here == nil ||
		there.String() != here.Error() {
		t.Errorf("%v; here %v, there %s", err, here, &there)
	}
}
