package meter

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// built keeps the guests of this test process: each is built once.
var built = map[string]func(dir string) ([]byte, error){
	"c": func(dir string) ([]byte, error) {
		out := filepath.Join(dir, "c.wasm")
		return run(out, nil, "clang", "--target=wasm32", "-O2", "-mbulk-memory", "-nostdlib", "-Wl,--no-entry", "-o", out,
			"testdata/guest.c")
	},
	"go": func(dir string) ([]byte, error) {
		out := filepath.Join(dir, "go.wasm")
		return run(out, []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"},
			"go", "build", "-buildmode=c-shared", "-ldflags", "-s -w", "-o", out, "./testdata/goguest")
	},
}

func run(out string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, msg)
	}
	return os.ReadFile(out)
}

var (
	guestsMu sync.Mutex
	guests   = map[string][]byte{}
)

// realGuest builds the C or the Go guest. The C guest needs clang with the
// wasm32 target and wasm-ld, and is skipped without.
func realGuest(t testing.TB, lang string) []byte {
	t.Helper()
	if lang == "c" {
		for _, tool := range []string{"clang", "wasm-ld"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skipf("the C guest needs %s", tool)
			}
		}
	}
	guestsMu.Lock()
	defer guestsMu.Unlock()
	if b, ok := guests[lang]; ok {
		return b
	}
	b, err := built[lang](t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	guests[lang] = b
	return b
}

// guestOptions lets the guests' own sizes through.
var guestOptions = Options{StartTicks: 1 << 40}

// startGuest runs a real guest, plain or metered.
func startGuest(t testing.TB, lang string, metered bool) *guest {
	t.Helper()
	module := realGuest(t, lang)
	if metered {
		var err error
		if module, _, err = Rewrite(module, guestOptions); err != nil {
			t.Fatal(err)
		}
	}
	rt := newRuntime(t)
	ctx := context.Background()
	if lang == "go" {
		wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	}
	mod, err := rt.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	return &guest{t, mod}
}

// fill writes input where the guest wants it.
func (g *guest) fill(input []byte) {
	g.t.Helper()
	at, err := g.call("buf")
	if err != nil {
		g.t.Fatal(err)
	}
	if !g.mod.Memory().Write(uint32(at[0]), input) {
		g.t.Fatal("the input does not fit in the guest")
	}
}

// document is JSON of about n bytes.
func document(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"messages":[`)
	for i := 0; b.Len() < n; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":"line %d: a \"quoted\" word, a tab\t and text that goes on","n":[%d,true,null]}`, i, i*37)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// frames is n records as a host would hand them to a translator.
func frames(n, size int) []byte {
	var b []byte
	for i := range n {
		b = append(b, 1, 0, 0, 0, byte(size), 0, 0, 0)
		b = append(b, bytes.Repeat([]byte{byte('a' + i%26)}, (size+7)&^7)...)
	}
	return b
}

func TestRealGuests(t *testing.T) {
	doc := document(20_000)
	n := uint64(len(doc))
	for lang, calls := range map[string][]struct {
		fn   string
		args []uint64
	}{
		"c": {{"escape", []uint64{n}}, {"scan", []uint64{n}}, {"hash", []uint64{n}}, {"copy", []uint64{4000, 3}},
			{"fib", []uint64{12}}, {"deep", []uint64{50}}, {"sort", []uint64{500}}},
		"go": {{"escape", []uint64{n}}, {"hash", []uint64{n}}, {"roundtrip", []uint64{n}}},
	} {
		t.Run(lang, func(t *testing.T) {
			if lang == "go" && testing.Short() {
				t.Skip("the Go guest takes seconds to compile")
			}
			plain, metered, again := startGuest(t, lang, false), startGuest(t, lang, true), startGuest(t, lang, true)
			for _, g := range []*guest{plain, metered, again} {
				g.fill(doc)
			}
			for _, c := range calls {
				metered.arm(1<<40, guestOptions)
				again.arm(1<<40, guestOptions)
				want, err := plain.call(c.fn, c.args...)
				got, err2 := metered.call(c.fn, c.args...)
				_, err3 := again.call(c.fn, c.args...)
				if err != nil || err2 != nil || err3 != nil {
					t.Fatalf("%s: plain %v, metered %v and %v", c.fn, err, err2, err3)
				}
				if len(want) == 0 || got[0] != want[0] {
					t.Errorf("%s: metered %v, plain %v", c.fn, got, want)
				}
				used := 1<<40 - metered.remaining()
				if other := 1<<40 - again.remaining(); used != other || used <= 0 {
					t.Errorf("%s: %d ticks and %d ticks", c.fn, used, other)
				}
				t.Logf("%s: %d ticks", c.fn, used)
			}
			if d := metered.get(GlobalDepth); d != DefaultDepthMax {
				t.Errorf("depth is %d after calls returned, want %d", d, DefaultDepthMax)
			}
		})
	}
}
