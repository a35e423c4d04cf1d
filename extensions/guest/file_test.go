package guest

import (
	"errors"
	"fmt"
	"testing"

	"corenode/extensions/meter/wasmtest"
)

// TestFloats: modules that decide over money or who is admitted compute in integers, others as they like.
func TestFloats(t *testing.T) {
	const f32Const = 0x43
	for kind, refused := range map[string]bool{KindBilling: true, KindAdmission: true, KindRewrite: false, KindFilter: false} {
		for runtime, refused := range map[string]bool{"c": refused, RuntimeGo: false} {
			manifest := fmt.Sprintf(`{"name":"half","kind":%q,"version":"1","abi":"1.1","runtime":%q}`, kind, runtime)
			f, err := Read(handmade(manifest, wasmtest.Asm().Op(f32Const, 0, 0, 0, 0).Op(wasmtest.Drop).I64(0)))
			if err != nil {
				t.Fatal(err)
			}
			err = f.Check()
			if why, ok := errors.AsType[*LoadError](err); refused != (ok && why.Stage == "floats") || refused != (err != nil) {
				t.Errorf("kind %s, runtime %s: %v", kind, runtime, err)
			}
		}
	}
}
