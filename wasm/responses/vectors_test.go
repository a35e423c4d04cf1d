package responses

import (
	"flag"
	"testing"

	"corenode/extensions/vector/vectortest"
)

var update = flag.Bool("update", false, "rewrite the wants of vectors/*.json; read the diff before you commit it")

// TestVectors runs the module's golden vectors natively: the same files run
// through the built module. Streams run at every cut.
func TestVectors(t *testing.T) { vectortest.Run(t, Handler(), true, *update, "vectors") }
