package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/extensions/meter/wasmtest"
	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// example packs a module of wasm/examples that is checked in as built, with vectors of that folder.
func example(t *testing.T, name, vectorsIn string) []byte {
	t.Helper()
	const all = "../../wasm/examples"
	folder := filepath.Join(all, name)
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	vectors, err := vector.Pack(filepath.Join(all, vectorsIn))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := Pack(read("module.wasm"), read("manifest.json"), vectors)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// TestExamplesStand: the examples that change requests and answers stand hostile input, also
// with a configuration that has them do so, and so does a translator of tools and calls.
func TestExamplesStand(t *testing.T) {
	stands := func(name, vectorsIn, config string, stages ...string) {
		t.Helper()
		r := File(example(t, name, vectorsIn), Options{Config: []byte(config), only: stages}, nil)
		if !r.Passed {
			t.Errorf("%s, configured with %q:\n%s", name, config, written(r))
		}
	}
	for _, language := range []string{"c", "rust", "assemblyscript"} {
		stands("rewrite-"+language, "vectors/rewrite", "", "vectors", "hostile input")
		stands("rewrite-"+language, "vectors/rewrite", `{"refuse":"zebulon","alias":"fast","serves":"core-1.1","system":"Be \"brief\"."}`,
			"hostile input")
		stands("filter-"+language, "vectors/filter", "", "vectors", "hostile input")
	}
	stands("translator-cohere-rust", "translator-cohere-rust/vectors", "", "vectors", "hostile input")
}

// TestOwnRequests: a module whose protocol nobody knows here is measured with requests of
// its vectors, not with refusals. The longest text of some may not become longer: arguments of a call.
func TestOwnRequests(t *testing.T) {
	for _, name := range []string{"translator-verse-rust", "translator-cohere-rust"} {
		packed := example(t, name, name+"/vectors")
		r := File(packed, Options{Calls: 10, only: []string{"vectors", "ticks"}}, nil)
		if text := written(r); !r.Passed || strings.Contains(text, "refused") || !strings.Contains(text, "one that a vector has") {
			t.Errorf("%s: %s", name, text)
		}
		all, err := Bench(packed, nil, time.Millisecond, nil)
		if err != nil {
			t.Fatal(err)
		}
		translated := slices.ContainsFunc(all, func(f Figure) bool { return f.Call == "request of 100 KB" && f.OutputBytes > 90<<10 })
		if !translated {
			t.Errorf("%s: no request of 100 KB was translated: %+v", name, all)
		}
	}
}

// TestVectorsWithoutRoute: the module is not called with a request that came by no route, which no node makes.
func TestVectorsWithoutRoute(t *testing.T) {
	const vectors = `[{"name": "a", "op": "request", "body": {}, "want": {"decline": true}}]`
	manifest, err := os.ReadFile("../../wasm/examples/translator-verse-rust/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	s := translator(&clerk{})
	s.Vectors, s.Routes = []byte(vectors), []probe.Route{{Op: "generate"}}
	o := quick()
	o.only = []string{"vectors"}
	if got := findings(Run(s, o), "vectors"); !strings.Contains(got, `"a": op request needs "route"`) {
		t.Error(got)
	}
	_, err = Pack((&wasmtest.Module{}).Bytes(), manifest, []byte(vectors))
	if err == nil || !strings.Contains(err.Error(), `vector "a": op request needs "route"`) {
		t.Errorf("pack: %v", err)
	}
}

// TestBenchTellsRefusals: who reads figures of refusals reads that they are that.
func TestBenchTellsRefusals(t *testing.T) {
	var files [2][]byte
	for i, name := range []string{"module.wasm", "manifest.json"} {
		var err error
		if files[i], err = os.ReadFile(filepath.Join("../../wasm/examples/translator-cohere-rust", name)); err != nil {
			t.Fatal(err)
		}
	}
	const vectors = `[{"name": "a", "op": "error", "error": {"status": 400, "kind": "invalid_request", "msg": "slow"},
		"want": {"decline": true}}]`
	packed, err := Pack(files[0], files[1], []byte(vectors))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Bench(packed, nil, time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	WriteFigures(&b, all)
	if !strings.Contains(b.String(), "\n2 usual requests of its protocol are refused") {
		t.Errorf("%s%+v", b.String(), all)
	}
}

// TestRefusalNamesFieldOnce: some kits write a message with the path of its field in front.
func TestRefusalNamesFieldOnce(t *testing.T) {
	for _, msg := range []string{"want a text", "messages.1.x: want a text"} {
		frame := abi.Refusal{Param: "messages.1.x", Msg: msg}.Append(abi.BeginOutput(nil, abi.StatusError, abi.InvalidRequest))
		abi.EndOutput(frame, 0)
		if got := refusal(probe.Call{Op: abi.OpRequest}, frame); got != "messages.1.x: want a text" {
			t.Errorf("%q: %q", msg, got)
		}
	}
}

// TestRemedies: a refusal that a node cuts is only told, and what must be done about an answer that nobody can
// read is not said of what clients send.
func TestRemedies(t *testing.T) {
	wrapped := func(change func(op abi.Op, in, frame []byte) []byte) string {
		s := translator(&clerk{})
		s.Open = func([]byte) (Guest, error) {
			return &handmade{h: func(op abi.Op, in, dst []byte) []byte {
				return change(op, in, sdk.TranslatorHandler(&clerk{})(op, in, dst))
			}}, nil
		}
		o := quick()
		o.only = []string{"vectors", "hostile input"}
		r := Run(s, o)
		return fmt.Sprintf("passed: %v\n%s", r.Passed, written(r))
	}
	text := wrapped(func(op abi.Op, _, frame []byte) []byte {
		if out, err := abi.ParseOutput(frame); op != abi.OpRequest || err != nil || out.Status != abi.StatusError {
			return frame
		}
		long := abi.Refusal{Msg: strings.Repeat("a", abi.RefusalBytesMax+1)}
		frame = long.Append(abi.BeginOutput(frame[:0], abi.StatusError, abi.InvalidRequest))
		abi.EndOutput(frame, 0)
		return frame
	})
	if !strings.Contains(text, "passed: true") || !strings.Contains(text, "a node cuts it") {
		t.Error(text)
	}
	text = wrapped(func(op abi.Op, in, frame []byte) []byte {
		if asked, err := abi.ParseResponseInput(in); op != abi.OpResponse || err != nil || len(asked.Events) > 0 {
			return frame
		}
		frame = abi.BeginOutput(frame[:0], abi.StatusOK, 0)
		abi.EndOutput(frame, 0)
		return frame
	})
	if !strings.Contains(text, "an answer of no events") || !strings.Contains(text, "whatever the events are") ||
		strings.Contains(text, "clients send before") {
		t.Error(text)
	}
}
