package proc

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

func TestForeign(t *testing.T) {
	earlier := Clocks{Ours: time.Second, Busy: time.Minute, Total: time.Hour}
	cases := []struct {
		passed Clocks
		want   float64
	}{
		{Clocks{Ours: 5 * time.Second, Busy: 6 * time.Second, Total: 10 * time.Second}, 0.1},
		{Clocks{Ours: 5*time.Second + tick, Busy: 5 * time.Second, Total: 10 * time.Second}, 0},
		{Clocks{}, 0},
	}
	for _, c := range cases {
		now := Clocks{Ours: earlier.Ours + c.passed.Ours, Busy: earlier.Busy + c.passed.Busy, Total: earlier.Total + c.passed.Total}
		if got := now.Foreign(earlier); got != c.want {
			t.Errorf("%+v: %v, want %v", c.passed, got, c.want)
		}
	}
}

// TestLoadBesideTheReferenceCounts: what others do while the memory is read disturbs a measurement as what they do beside
// what it is the reference of, however long that takes.
func TestLoadBesideTheReferenceCounts(t *testing.T) {
	at := func(ours, busy, total time.Duration) Clocks {
		return Clocks{Ours: ours, Busy: busy, Total: total}
	}
	cases := []struct {
		name string
		w    watch
		want float64
	}{
		{"quiet", watch{at(0, 0, 0), at(4, 4, 4), at(404, 404, 404), at(408, 408, 408)}, 0},
		{"before", watch{at(0, 0, 0), at(2, 4, 4), at(402, 404, 404), at(406, 408, 408)}, 0.25},
		{"measurement", watch{at(0, 0, 0), at(4, 4, 4), at(304, 404, 404), at(308, 408, 408)}, 0.25},
		{"after", watch{at(0, 0, 0), at(4, 4, 4), at(404, 404, 404), at(405, 408, 408)}, 0.375},
	}
	for _, c := range cases {
		if got := c.w.foreign(); got != c.want {
			t.Errorf("%s: others used %v of the machine, want %v", c.name, got, c.want)
		}
	}
}

func TestBetween(t *testing.T) {
	if _, err := ReadClocks(); err != nil {
		t.Skip(err) // no /proc
	}
	var ran []string
	add := func(name string, err error) func() error {
		return func() error { ran = append(ran, name); return err }
	}
	_, err := Between(add("reference", nil), add("measurement", nil))
	if err != nil || strings.Join(ran, " ") != "reference measurement reference" {
		t.Errorf("ran %v, %v", ran, err)
	}
	bad := errors.New("bad")
	if _, err := Between(add("reference", nil), add("measurement", bad)); !errors.Is(err, bad) || len(ran) != 5 {
		t.Errorf("ran %v, %v", ran, err)
	}
}

func TestFilesystemIsThatOfTheLongestMount(t *testing.T) {
	mounts := []*procfs.MountInfo{{MountPoint: "/", FSType: "ext4"}, {MountPoint: "/tmp", FSType: "tmpfs"}, {MountPoint: "/tmp/deep", FSType: "xfs"}}
	for path, want := range map[string]string{"/home/x": "ext4", "/tmp": "tmpfs", "/tmp/x": "tmpfs", "/tmp/deep/x": "xfs", "/tmpx": "ext4"} {
		if got := filesystem(mounts, path); got != want {
			t.Errorf("%s is on %s, want %s", path, got, want)
		}
	}
	if got := filesystem(nil, "/x"); got != "unknown" {
		t.Errorf("of no mounts: %s", got)
	}
}

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// The oracle is getrusage: another system call, with a finer unit.
func TestReadAgreesWithGetrusage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	x := 1.0
	for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; {
		x *= 1.0000001
	}
	u, err := Read(os.Getpid())
	if err != nil || x < 1 {
		t.Fatal(err)
	}
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	want := time.Duration(r.Utime.Nano() + r.Stime.Nano())
	if diff := want - u.CPU; diff < -2*tick || diff > 5*tick {
		t.Errorf("/proc says %v, getrusage %v", u.CPU, want)
	}
	if u.RSS < 1<<20 {
		t.Errorf("usage %+v", u)
	}
	if c, err := ReadClocks(nil); err != nil || c.Busy <= 0 || c.Busy >= c.Total || c.Ours < u.CPU {
		t.Errorf("clocks %+v, error %v", c, err)
	}
}

func shell(t *testing.T, script string) Spec {
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	return Spec{Name: "child", Path: path, Args: []string{"-c", script}, Dir: t.TempDir(),
		Ready: func(line string) (string, bool) { return strings.CutPrefix(line, "at ") }}
}

func TestChildStopsAndIsGone(t *testing.T) {
	for name, script := range map[string]string{
		"in time":         `echo noise; echo at here; while :; do sleep 0.02; done`,
		"by its own will": `echo at here`,
	} {
		t.Run(name, func(t *testing.T) {
			c, value, err := Start(t.Context(), shell(t, script))
			if err != nil {
				t.Fatal(err)
			}
			if value != "here" {
				t.Errorf("ready with %q", value)
			}
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
			if err := c.Alive(); err == nil {
				t.Error("a stopped child is alive")
			}
			if err := syscall.Kill(c.PID(), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("its process answers: %v", err)
			}
		})
	}
}

// program makes a program of a script, which finds a node's data folder in $5.
func program(t *testing.T, script string) string {
	path := filepath.Join(t.TempDir(), "corenode")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNodesAreConfiguredByTheBenchmarkAlone: variables of whoever starts it would win over the file that it writes.
func TestNodesAreConfiguredByTheBenchmarkAlone(t *testing.T) {
	for _, name := range []string{"CORENODE_STORE_URL", "CORENODE_CPU_LEVEL", "CORENODE_LOG_LEVEL", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		t.Setenv(name, "theirs")
	}
	t.Setenv("OTHER", "theirs")
	path := program(t, `mkdir "$5"; echo key >"$5/default.key"; env >"$5/env"; echo base URL http://127.0.0.1:1`)
	n, err := StartNode(t.Context(), Spec{Name: "node", Path: path, Dir: t.TempDir(), Env: []string{"CORENODE_CPU_LEVEL=ours"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	served, err := n.read("env")
	if err := errors.Join(err, n.Stop()); err != nil {
		t.Fatal(err)
	}
	said, err := Command(t.Context(), program(t, "env")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for where, c := range map[string]struct{ got, want string }{
		"a node":    {served, "CORENODE_CPU_LEVEL=ours OTHER=theirs"},
		"a command": {string(said), "OTHER=theirs"},
	} {
		ours := slices.DeleteFunc(strings.Fields(c.got), func(line string) bool {
			return !strings.HasPrefix(line, "CORENODE_") && !strings.HasPrefix(line, "OTEL_") && !strings.HasPrefix(line, "OTHER=")
		})
		slices.Sort(ours)
		if got := strings.Join(ours, " "); got != c.want {
			t.Errorf("%s has %q, want %q", where, got, c.want)
		}
	}
}

func TestChildThatFailsShowsItsLog(t *testing.T) {
	_, _, err := Start(t.Context(), shell(t, `echo the reason >&2; exit 3`))
	if err == nil || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("error %v", err)
	}
	s := shell(t, "")
	s.Path = filepath.Join(t.TempDir(), "absent")
	if _, _, err := Start(t.Context(), s); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// TestChildIsReadyWhenItsHealthIs has somebody else answer for the child, at
// first that it is not well.
func TestChildIsReadyWhenItsHealthIs(t *testing.T) {
	var asked atomic.Int64
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer health.Close()
	s := shell(t, `echo at nobody; while :; do sleep 0.02; done`)
	s.Ready, s.Health = nil, health.URL
	c, value, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if value != health.URL || asked.Load() != 3 {
		t.Errorf("ready with %q after %d questions, want 3", value, asked.Load())
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	s = shell(t, `exit 3`)
	s.Ready, s.Health = nil, "http://127.0.0.1:1/nobody"
	if _, _, err := Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("a child that ends is ready: %v", err)
	}
}

func TestChildEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := shell(t, `echo $$; while :; do sleep 0.02; done`)
	pid := make(chan int, 1)
	s.Ready = func(line string) (string, bool) {
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Error(err)
		}
		pid <- n
		cancel()
		return "", false
	}
	if _, _, err := Start(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := syscall.Kill(<-pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("its process answers: %v", err)
	}
}

// TestNodesThatAreMeasuredDraftNothing: a step that keeps drafted tokens reads the weights once for several of them.
func TestNodesThatAreMeasuredDraftNothing(t *testing.T) {
	if config := string(CPUConfig("m", "m.gguf", 2)); !strings.Contains(config, "\n    threads: 2\n    speculation: \"off\"\n") {
		t.Errorf("the node may draft:\n%s", config)
	}
}

// TestErrorsOfANodeAreCounted: lines of the level ERROR alone, whatever others quote, and of many the first.
func TestErrorsOfANodeAreCounted(t *testing.T) {
	log := filepath.Join(t.TempDir(), "node.log")
	n := &Node{Child: &Child{log: log}}
	if _, _, err := n.Errors(); err == nil {
		t.Error("a log that is not there has no errors")
	}
	const fine = `{"level":"INFO","msg":"request","error":"overloaded"}` + "\n" + `{"level":"WARN","msg":"\"level\":\"ERROR\""}` + "\n"
	const failed = `{"time":"t","level":"ERROR","msg":"panic"}`
	for text, want := range map[string]int{"": 0, fine: 0, fine + failed + "\n" + fine: 1, failed: 1,
		strings.Repeat(failed+"\n", 30): 30, fine + failed + strings.Repeat("x", 1<<17): 1} {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		first, all, err := n.Errors()
		if err != nil || all != want || len(first) != min(want, errorsMax) {
			t.Errorf("%d lines of %d, %v; want %d in all", len(first), all, err, want)
		}
		for _, line := range first {
			if !strings.HasPrefix(line, failed) || len(line) > errorBytesMax {
				t.Errorf("line %.600s", line)
			}
		}
	}
}

func TestMetricIsSummedOverItsLabels(t *testing.T) {
	text := []byte("# TYPE a_bytes gauge\na_bytes{model=\"x y\"} 3\na_bytes{model=\"z\"} 1.5e3\na_bytes_total 7\nb 2\nc{} x\n")
	for name, want := range map[string]float64{"a_bytes": 1503, "b": 2, "a_bytes_total": 7} {
		if got, err := sum(text, name); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"a", "c", ""} {
		if got, err := sum(text, name); err == nil {
			t.Errorf("%q is %v, want an error", name, got)
		}
	}
}
