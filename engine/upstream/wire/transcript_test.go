package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestTranscripts reads streams that real servers wrote: each FLAVOR-CASE.sse of
// testdata/transcripts answers FLAVOR-CASE.request.json, and the events and the usage must be
// those of FLAVOR-CASE.events. They come out the same in pieces of every size.
//
// llama-server is that of llama.cpp as llama-cpp-python 0.3.36 has it; both servers ran the
// model in the binary, without sampling.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.sse")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".sse")
		t.Run(filepath.Base(base), func(t *testing.T) {
			stream, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := readTranscript(t, base, stream, len(stream))
			for _, size := range []int{1, 7, 100} {
				if in := readTranscript(t, base, stream, size); in != got {
					t.Errorf("in pieces of %d bytes:\n%s\nat once:\n%s", size, in, got)
				}
			}
			if *update {
				if err := os.WriteFile(base+".events", []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(base + ".events")
			if err != nil || string(want) != got {
				t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, got, want)
			}
		})
	}
}

// readTranscript writes what a stream says, one event a line, and its usage.
func readTranscript(t *testing.T, base string, stream []byte, size int) string {
	t.Helper()
	flavor := LlamaServer
	if strings.HasPrefix(filepath.Base(base), "corenode") {
		flavor = Corenode
	}
	body, err := os.ReadFile(base + ".request.json")
	if err != nil {
		t.Fatal(err)
	}
	var request struct {
		Stop          []string
		StopSequences []string `json:"stop_sequences"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	r := NewReader(flavor, append(request.Stop, request.StopSequences...), func() string { return "toolu_1" })
	var events []abi.Event
	for len(stream) > 0 {
		n := min(size, len(stream))
		if events, err = r.Feed(events, stream[:n]); err != nil {
			t.Fatal(err)
		}
		stream = stream[n:]
	}
	if events, err = r.End(events); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, e := range events {
		fmt.Fprintf(&out, "kind %d block %d index %d text %q name %q id %q stop %d %q\n", e.Kind, e.Block, e.Index, e.Text, e.Name, e.ID, e.Stop, e.StopSequence)
	}
	fmt.Fprintf(&out, "usage %+v, delivered at least %d\n", r.Usage(), r.Delivered())
	return out.String()
}
