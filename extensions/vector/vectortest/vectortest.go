// Package vectortest holds what the tests of all modules do alike: running a folder of golden
// vectors on a native build, looking at what a fuzzed input gave, and streaming a random answer
// in groups. The same vectors run through the built module.
package vectortest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// Handler is a module's native build, as sdk.Handler.
type Handler = func(op abi.Op, in, dst []byte) []byte

// Native calls a handler as the guest's export does.
func Native(h Handler) func(abi.Op, []byte) ([]byte, error) {
	return func(op abi.Op, in []byte) ([]byte, error) { return h(op, in, nil), nil }
}

// Run runs every vector of the folders, streams at every cut, and checks that the files are
// laid out as an update lays them out. With update it writes what the build gives instead.
// History is what the module's manifest says.
func Run(t *testing.T, h Handler, history, update bool, folders ...string) {
	for _, folder := range folders {
		files, err := vector.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			before, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range f.Vectors {
				runOne(t, &f.Vectors[i], h, history, update)
			}
			after := vector.Format(f.Vectors)
			switch {
			case update:
				if err := os.WriteFile(f.Path, after, 0o644); err != nil {
					t.Fatal(err)
				}
			case !bytes.Equal(before, after):
				t.Errorf("%s is not laid out as an update lays it out", f.Path)
			}
		}
	}
}

func runOne(t *testing.T, v *vector.Vector, h Handler, history, update bool) {
	t.Run(v.Name, func(t *testing.T) {
		if update {
			if _, err := v.Update(Native(h), history); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.Run(Native(h), history); err != nil {
			t.Error(err)
		}
	})
}

// Refused checks what a translator said of a body that nobody wrote, which must be as it was
// before: an error of the client's kind with a message that fits, or else JSON that became
// JSON. It says whether it was refused.
func Refused(t *testing.T, before, body []byte, out abi.Translated, err *abi.Error) bool {
	t.Helper()
	if !bytes.Equal(body, before) {
		t.Fatalf("%q was changed to %q", before, body)
	}
	if err != nil {
		if err.Kind != abi.InvalidRequest || err.Msg == "" || len(err.Msg)+len(err.Param) > 2*abi.RefusalBytesMax {
			t.Fatalf("%q: %+v", body, err)
		}
		return true
	}
	if !json.Valid(body) || !json.Valid(out.Body) {
		t.Fatalf("%q became %q", body, out.Body)
	}
	return false
}

// SameOutput gives a handler any input and checks that the general way answers with the same
// bytes, that they are an output, and that what it writes of events ends as whole events do.
func SameOutput(t *testing.T, h, general Handler, op abi.Op, in []byte, end string) {
	t.Helper()
	out := h(op, in, nil)
	if want := general(op, in, nil); !bytes.Equal(out, want) {
		t.Fatalf("op %d, %q:\n%q\nwant\n%q", op, in, out, want)
	}
	frame, err := abi.ParseOutput(out)
	if err != nil {
		t.Fatalf("op %d, %q: %v", op, in, err)
	}
	if op != abi.OpEvents || frame.Status != abi.StatusOK {
		return
	}
	w, err := abi.ParseWritten(frame.Payload)
	asked, _ := abi.ParseEventsInput(in) // a state is the module's own, unless it is broken
	whole := len(w.Bytes) == 0 || len(asked.State) > 0 || bytes.HasSuffix(w.Bytes, []byte(end))
	if err != nil || len(w.State) > abi.StateBytesMax || !whole {
		t.Fatalf("%q: %v, wrote %q", in, err, w.Bytes)
	}
}
