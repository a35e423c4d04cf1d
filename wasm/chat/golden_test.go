package chat_test

import (
	"flag"
	"testing"

	"corenode/extensions/vector/vectortest"
	"corenode/wasm/chat"
	"corenode/wasm/sdk"
)

var update = flag.Bool("update", false, "rewrite what the vectors want; read the diff before you commit it")

// vectorDirs hold the module's own vectors and the full set of goldens, in one
// format: package vector describes it.
var vectorDirs = []string{"vectors", "testdata/vectors"}

var (
	handler = chat.Handler()
	native  = vectortest.Native(handler)        // runs the translator as the guest's export does
	general = sdk.TranslatorHandler(chat.New()) // without the short way of Handler
)

// TestVectors runs every vector; a stream at every cut in two, and with every
// event alone.
func TestVectors(t *testing.T) { vectortest.Run(t, handler, false, *update, vectorDirs...) }
