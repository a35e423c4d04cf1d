package examples

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// Operations of the echo module in AssemblyScript alone: one makes an array of module level longer, one
// writes that array and a new one that grew.
const (
	opLengthen abi.Op = 97
	opArrays   abi.Op = 98
)

func assemblyScript(t *testing.T, config string) *guest {
	t.Helper()
	wasm, err := os.ReadFile(echoes["assemblyscript"])
	if err != nil {
		t.Fatal(err)
	}
	return open(t, wasm, config)
}

// TestAssemblyScriptArrays: an array that its source lists keeps its elements when configure adds one, and
// what an array grows by is zeros, whatever calls before have left in that memory.
func TestAssemblyScriptArrays(t *testing.T) {
	config := `{"a":1}`
	fresh, used := assemblyScript(t, config), assemblyScript(t, config)
	dirt := abi.ResponseInput{Kept: bytes.Repeat([]byte("x"), 1<<16)}
	if _, err := used.call(abi.OpResponse, dirt.Append(nil)); err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{1, 3, 40, 5000} {
		want := fmt.Sprintf("100|200|%d|7|", len(config)) + strings.Repeat("0|", 2*more)
		for name, g := range map[string]*guest{"fresh": fresh, "used": used} {
			frame, err := g.call(opArrays, []byte{byte(more), byte(more >> 8)})
			if err != nil {
				t.Fatal(err)
			}
			if out, err := abi.ParseOutput(frame); err != nil || string(out.Payload) != want {
				t.Errorf("an array that grew by %d twice, on a %s instance: %.200q, %v, want %.200q", more, name, out.Payload, err, want)
			}
		}
	}
}

// TestAssemblyScriptKeptArrays: an array that stays would grow into memory that is given back after the call.
func TestAssemblyScriptKeptArrays(t *testing.T) {
	g := assemblyScript(t, "")
	for range 100 {
		if _, err := g.call(opLengthen, nil); err != nil {
			return
		}
	}
	t.Error("an array of module level grew in calls and there was no trap")
}

// TestAssemblyScriptStrings: a string is any text, not only ASCII, and what is written of it is UTF-8.
func TestAssemblyScriptStrings(t *testing.T) {
	frame, err := assemblyScript(t, "").call(abi.OpRequest, abi.RequestInput{Body: []byte(`{"é€😀":1,"é€":2,"é€😁":3}`)}.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	out, _ := abi.ParseOutput(frame)
	if got, err := abi.ParseTranslated(out.Payload); err != nil || string(got.Body) != "é€😀=é€😀 a\ufffd1;é€=2;é€😁=3;" {
		t.Errorf("%q, %v", out.Payload, err)
	}
}
