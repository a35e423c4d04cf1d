package chat_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"corenode/wasm/abi"
	"corenode/wasm/chat"
)

// conversation is a request of about size bytes: turns of text with code and
// some Unicode in it, calls and their results, and a few tools.
func conversation(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"core-1.1","stream":true,"temperature":0.7,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"You are a careful assistant."}`)
	for i := 0; b.Len() < size-400; i++ {
		n := strconv.Itoa(i)
		switch i % 4 {
		case 0:
			b.WriteString(`,{"role":"user","content":"Please read the file number ` + n + ` and tell me what the function in it does, in one or two sentences."}`)
		case 1:
			b.WriteString(`,{"role":"assistant","content":null,"tool_calls":[{"id":"call_` + n + `","type":"function","function":{"name":"read_file","arguments":"{\"path\": \"src/part` + n + `.go\", \"lines\": [1, 200]}"}}]}`)
		case 2:
			b.WriteString(`,{"role":"tool","tool_call_id":"call_` + strconv.Itoa(i-1) + `","content":"package part\n\n// Größe returns the size – in bytes – of \"s\".\nfunc Größe(s string) int {\n\treturn len(s)\n}\n"}`)
		case 3:
			b.WriteString(`,{"role":"assistant","reasoning_content":"The function is short.","content":"It returns the number of bytes of the string that it is given, which is not the number of its characters."}`)
		}
	}
	b.WriteString(`],"tools":[{"type":"function","function":{"name":"read_file","description":"Reads a file","parameters":{"type":"object","properties":{"path":{"type":"string","description":"where it is"},"lines":{"type":"array","items":{"type":"integer"}}},"required":["path"]}}}]}`)
	return b.Bytes()
}

var benchFacts = abi.Facts{ID: "0198c0ffee1234567890abcdef012345", Created: 1_760_000_000, Model: "core-1.1-mini", Stream: true}

// deltas is the input of a group of n pieces of text, in the middle of a stream.
func deltas(n int) []byte {
	var f abi.Frames
	for range n {
		f = abi.AppendFrame(f, &abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Index: 1, Text: " tokens"})
	}
	before := abi.AppendFrame(nil, &abi.Event{Kind: abi.EventStart})
	before = abi.AppendFrame(before, &abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Index: 1, Text: "Some"})
	_, state := chat.New().Events(nil, nil, abi.EventsInput{Facts: benchFacts, Events: before})
	return abi.EventsInput{Facts: benchFacts, State: state, Events: f}.Append(nil)
}

// calls are what the benchmarks measure, natively and as a guest.
var calls = []struct {
	name   string
	op     abi.Op
	in     []byte
	events int // in one call; 0 for a request
}{
	{"request 1 KB", abi.OpRequest, abi.RequestInput{Facts: benchFacts, Body: conversation(1 << 10)}.Append(nil), 0},
	{"request 100 KB", abi.OpRequest, abi.RequestInput{Facts: benchFacts, Body: conversation(100 << 10)}.Append(nil), 0},
	{"one event", abi.OpEvents, deltas(1), 1},
	{"groups of 8", abi.OpEvents, deltas(8), 8},
}

func report(b *testing.B, events, size int) {
	if events > 0 {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
		return
	}
	b.SetBytes(int64(size))
}

func BenchmarkNative(b *testing.B) {
	for _, c := range calls {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				if dst = handler(c.op, c.in, dst[:0]); dst[0] != byte(abi.StatusOK) {
					b.Fatalf("not translated: %q", dst)
				}
			}
			report(b, c.events, len(c.in))
		})
	}
}

// BenchmarkGuest runs the translator as the module that ships, in an engine
// without metering: the node's rewrite of modules comes on top.
func BenchmarkGuest(b *testing.B) {
	call := instantiate(b)
	for _, c := range calls {
		b.Run(c.name, func(b *testing.B) {
			want := handler(c.op, c.in, nil)
			var out []byte
			for b.Loop() {
				out = call(c.op, c.in, out[:0])
			}
			if !bytes.Equal(out, want) {
				b.Fatalf("the guest says %q, the native build %q", out, want)
			}
			report(b, c.events, len(c.in))
		})
	}
}

// instantiate builds the guest and returns its call, which copies the input in
// and the output out as the node does.
func instantiate(b *testing.B) func(op abi.Op, in, dst []byte) []byte {
	file := filepath.Join(b.TempDir(), "chat.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", file, "./guest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	b.Cleanup(func() { _ = r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	m, err := r.InstantiateWithConfig(ctx, code, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		b.Fatal(err)
	}
	return caller(b, ctx, m)
}

func caller(b *testing.B, ctx context.Context, m api.Module) func(op abi.Op, in, dst []byte) []byte {
	buf, call := m.ExportedFunction("buf"), m.ExportedFunction("call")
	var stack [2]uint64
	at, room := uint32(0), 0
	return func(op abi.Op, in, dst []byte) []byte {
		if room < len(in) {
			stack[0] = uint64(len(in))
			if err := buf.CallWithStack(ctx, stack[:]); err != nil {
				b.Fatal(err)
			}
			at, room = uint32(stack[0]), len(in)
		}
		m.Memory().Write(at, in)
		stack[0], stack[1] = uint64(op), uint64(len(in))
		if err := call.CallWithStack(ctx, stack[:]); err != nil {
			b.Fatal(err)
		}
		out, ok := m.Memory().Read(uint32(stack[0]>>32), uint32(stack[0]))
		if !ok || len(out) == 0 {
			b.Fatal("no output")
		}
		return append(dst, out...)
	}
}

func TestBenchmarkInputs(t *testing.T) {
	for _, c := range calls {
		if out := handler(c.op, c.in, nil); out[0] != byte(abi.StatusOK) || len(out) < len(c.in)/2 || c.events > 0 &&
			strings.Count(string(out), "\n\n") != c.events+1 { // one is of the state
			t.Errorf("%s gives %q", c.name, out)
		}
	}
}
