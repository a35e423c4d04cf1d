package interp

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
)

var _ cuda.Driver = (*Device)(nil)

const addOne = `.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 n)
{
.reg .b64 %a; .reg .b32 %v, %n; .reg .b64 %o;
ld.param.u64 %a, [p]; ld.param.u32 %n, [n];
mov.u32 %v, %tid.x; mul.wide.u32 %o, %v, 4; add.u64 %a, %a, %o;
ld.global.u32 %v, [%a]; add.u32 %v, %v, %n; st.global.u32 [%a], %v; ret;
}
`

// add returns the launch of a kernel that adds n to 32 words.
func add(p cuda.Pointer, n int) cuda.Launch {
	return cuda.Launch{Block: cuda.Dim{X: 32}, Params: params(p, n)}
}

func TestStreamsRunWhenSomebodyWaits(t *testing.T) {
	r := newRig(t, Config{Seed: 3})
	f := r.function(addOne, "add")
	host := make([]byte, 128)
	p := r.room(128)
	r.must(r.stream.CopyIn(p, host))
	r.must(r.stream.Launch(f, add(p, 5)))
	host[0] = 7 // before the copy has run: it is seen
	e, err := r.device.NewEvent()
	r.must(err)
	r.must(r.stream.Record(e))
	out := make([]byte, 128)
	r.must(r.stream.CopyOut(out, p))
	polls := 0
	for done := false; !done; polls++ {
		if done, err = e.Done(); err != nil || polls > 10 {
			t.Fatal(polls, err)
		}
	}
	if polls < 2 || out[0] != 0 {
		t.Errorf("event complete after %d polls, output %d before the wait", polls, out[0])
	}
	r.must(r.stream.Synchronize())
	if out[0] != 12 || out[4] != 5 {
		t.Errorf("output %v", out[:8])
	}
}

func TestGraphsRepeat(t *testing.T) {
	r := newRig(t, Config{Seed: 3})
	f, p := r.function(addOne, "add"), r.in(make([]byte, 128))
	r.must(r.stream.BeginCapture())
	r.must(r.stream.Launch(f, add(p, 1)))
	r.must(r.stream.Launch(f, add(p, 2)))
	g, err := r.stream.EndCapture()
	r.must(err)
	begin, _ := r.device.NewEvent()
	end, _ := r.device.NewEvent()
	r.must(r.stream.Record(begin))
	for range 3 {
		r.must(r.stream.Replay(g))
	}
	r.must(r.stream.Record(end))
	out := make([]byte, 128)
	r.must(r.stream.CopyOut(out, p))
	r.must(r.stream.Synchronize())
	if took, err := end.Since(begin); out[0] != 9 || err != nil || took <= 0 {
		t.Errorf("%d after three rounds of 3, took %g, %v", out[0], took, err)
	}
}

func code(err error) (cuda.Code, bool) {
	if e, ok := errors.AsType[*cuda.Error](err); ok {
		return e.Code, e.Sticky
	}
	return 0, false
}

func TestInjectedFaults(t *testing.T) {
	r := newRig(t, Config{Seed: 3})
	f, p := r.function(addOne, "add"), r.in(make([]byte, 128))
	r.device.Inject(AllocFault, 2)
	_, first := r.device.Alloc(8)
	_, second := r.device.Alloc(8)
	if c, sticky := code(second); first != nil || c != cuda.OutOfMemory || sticky {
		t.Errorf("allocations: %v, %v", first, second)
	}
	r.device.Inject(LaunchFault, 1)
	if c, sticky := code(r.stream.Launch(f, add(p, 1))); c != cuda.LaunchError || sticky {
		t.Errorf("launch: %v %v", c, sticky)
	}
	r.must(r.stream.Launch(f, add(p, 1)))
	r.must(r.stream.Synchronize())
	r.device.Inject(StickyFault, 1)
	r.must(r.stream.Launch(f, add(p, 1)))
	if c, sticky := code(r.stream.Synchronize()); c != cuda.Fault || !sticky {
		t.Errorf("sticky: %v %v", c, sticky)
	}
	_, err := r.device.Alloc(8)
	if _, sticky := code(err); !sticky {
		t.Errorf("the device lives on: %v", err)
	}
}

func TestEventThatNeverCompletes(t *testing.T) {
	r := newRig(t, Config{Seed: 3})
	r.device.Inject(EventFault, 1)
	e, _ := r.device.NewEvent()
	r.must(r.stream.Record(e))
	r.must(r.stream.Fill(r.room(8), 0, 8))
	for range 100 {
		if done, err := e.Done(); done || err != nil {
			t.Fatal(done, err)
		}
	}
	if _, sticky := code(r.stream.Synchronize()); !sticky {
		t.Error("the stream ends")
	}
}

func TestDeviceRefuses(t *testing.T) {
	r := newRig(t, Config{Seed: 3, Memory: 4096})
	f, p := r.function(addOne, "add"), r.in(make([]byte, 128))
	for name, l := range map[string]cuda.Launch{
		"parameters": {Block: cuda.Dim{X: 32}},
		"threads":    {Block: cuda.Dim{X: 2048}, Params: params(p, 1)},
		"shared":     {Shared: 64, Params: params(p, 1)},
		"grid":       {Grid: cuda.Dim{Y: 70000}, Params: params(p, 1)},
	} {
		if c, _ := code(r.stream.Launch(f, l)); c != cuda.LaunchError {
			t.Errorf("%s: %v", name, c)
		}
	}
	if _, err := r.device.Alloc(1 << 20); err == nil {
		t.Error("an allocation above the memory")
	}
	for _, text := range []string{strings.Replace(addOne, "sm_80", "sm_100a", 1), strings.Replace(addOne, "add.u32", "frobnicate.u32", 1),
		strings.Replace(addOne, "add.u32", "add.cc.u32", 1)} {
		if _, err := r.device.Load([]byte(text)); err == nil {
			t.Errorf("loads: %s", text)
		} else if c, sticky := code(err); c != cuda.BadImage || sticky {
			t.Error(err)
		}
	}
	r.must(r.stream.Synchronize())
	r.must(r.device.Free(p))
	r.must(r.stream.Launch(f, add(p, 1)))
	if err := r.stream.Synchronize(); err == nil || !strings.Contains(err.Error(), "outside of every allocation") {
		t.Errorf("use after free: %v", err)
	}
}

// TestSeedsRepeat runs a kernel that races: the same seed gives the same report.
func TestSeedsRepeat(t *testing.T) {
	text := mutations[0].mutants(t, ptxFiles(t)["rmsnorm.nvcc.ptx"])[0]
	reports := map[string]bool{}
	for _, seed := range []uint64{99, 99, 100} {
		_, err := runNorm(newRig(t, Config{Seed: seed, Shadow: true}), text)
		if err == nil {
			t.Fatal("no report")
		}
		reports[err.Error()] = true
	}
	if len(reports) != 2 {
		t.Errorf("two seeds, one of them twice, give %d reports: %v", len(reports), reports)
	}
}

// TestEveryInstructionRuns wants all instructions of the test kernels executed.
func TestEveryInstructionRuns(t *testing.T) {
	compared := 0
	for _, c := range kernelCases {
		for _, compiler := range []string{"nvcc", "clang"} {
			r := newRig(t, Config{Seed: 5, Workers: 2})
			for i := 0; i < 20 && (i == 0 || len(r.device.Unexecuted()) > 0); i++ { // some waits need no second try by chance
				if _, err := c.run(r, ptxFiles(t)[c.name+"."+compiler+".ptx"]); err != nil {
					t.Fatal(err)
				}
			}
			for _, line := range r.device.Unexecuted() {
				t.Errorf("%s: %s never ran", compiler, line)
			}
			compared += r.device.Written(t)
		}
	}
	if compared == 0 {
		t.Error("no kernel kept its registers for the next launch")
	}
}

// TestDigests finds a PTX text that is not made from the sources beside it;
// build.sh beside them makes both.
func TestDigests(t *testing.T) {
	list, err := os.ReadFile("testdata/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for line := range strings.Lines(string(list)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", name, got, want, err)
		}
		listed++
	}
	all, _ := filepath.Glob("testdata/*.[cph][tu]*")
	headers, _ := filepath.Glob("testdata/*.h")
	if listed != len(all)+len(headers) || listed < 10 {
		t.Errorf("%d files listed, there are %d", listed, len(all)+len(headers))
	}
}
