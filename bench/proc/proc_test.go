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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The lines are those of proc(5); the numbers were added by hand.
func TestParseUsage(t *testing.T) {
	tail := " S 1 42 42 0 -1 4194560 2000 0 0 0 150 50 7 9 20 0 11 0 3000 1234567 300 18446744073709551615 1 1"
	cases := []struct {
		name, stat string
		want       Usage
		fails      bool
	}{
		{"plain", "42 (corenode)" + tail, Usage{2 * time.Second, 11, 300 * 4096}, false},
		{"hostile name", "42 (a) S 9 (b c)" + tail, Usage{2 * time.Second, 11, 300 * 4096}, false},
		{"children's times are not counted", "42 (x)" + strings.Replace(tail, " 7 9 ", " 700 900 ", 1), Usage{2 * time.Second, 11, 300 * 4096}, false},
		{"cut", "42 (x) S 1 42", Usage{}, true},
		{"no name", "42 x S", Usage{}, true},
		{"no number", "42 (x)" + strings.Replace(tail, " 150 ", " many ", 1), Usage{}, true},
		{"empty", "", Usage{}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseUsage([]byte(c.stat), 4096)
			if (err != nil) != c.fails || got != c.want {
				t.Errorf("got %+v, error %v; want %+v, error %v", got, err, c.want, c.fails)
			}
		})
	}
}

func TestParseMachine(t *testing.T) {
	cases := []struct {
		name, stat string
		want       Machine
		fails      bool
	}{
		{"all fields", "cpu  100 10 40 700 30 5 15 100 9 9\ncpu0 1 1 1 1\n", Machine{2500 * time.Millisecond, 10 * time.Second}, false},
		{"old kernel", "cpu 1 2 3 4\n", Machine{60 * time.Millisecond, 100 * time.Millisecond}, false},
		{"one processor only", "cpu0 1 2 3 4\n", Machine{}, true},
		{"no number", "cpu 1 2 x 4\n", Machine{}, true},
		{"empty", "", Machine{}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseMachine([]byte(c.stat))
			if (err != nil) != c.fails || !c.fails && got != c.want {
				t.Errorf("got %+v, error %v; want %+v, error %v", got, err, c.want, c.fails)
			}
		})
	}
}

func TestForeign(t *testing.T) {
	cases := []struct {
		m    Machine
		ours time.Duration
		want float64
	}{
		{Machine{6 * time.Second, 10 * time.Second}, 5 * time.Second, 0.1},
		{Machine{5 * time.Second, 10 * time.Second}, 5*time.Second + tick, 0},
		{Machine{}, 0, 0},
	}
	for _, c := range cases {
		if got := c.m.Foreign(c.ours); got != c.want {
			t.Errorf("%+v, ours %v: %v, want %v", c.m, c.ours, got, c.want)
		}
	}
}

func TestParseHost(t *testing.T) {
	if got := parseModel([]byte("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nmodel name\t: other\n")); got != "Some CPU @ 3 GHz" {
		t.Errorf("model %q", got)
	}
	if got := parseModel(nil); got != "unknown" {
		t.Errorf("model of nothing: %q", got)
	}
	mounts := "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/deep xfs rw 0 0\nbroken\n"
	for path, want := range map[string]string{"/home/x": "ext4", "/tmp": "tmpfs", "/tmp/x": "tmpfs", "/tmp/deep/x": "xfs", "/tmpx": "ext4"} {
		if got := parseFilesystem([]byte(mounts), path); got != want {
			t.Errorf("%s is on %s, want %s", path, got, want)
		}
	}
}

// The oracle is getrusage: another system call, with a finer unit.
func TestReadAgreesWithGetrusage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	x := 1.0
	for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; {
		x *= 1.0000001
	}
	u, err := Read(0)
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
	if u.RSS < 1<<20 || u.Threads < 1 {
		t.Errorf("usage %+v", u)
	}
	if m, err := ReadMachine(); err != nil || m.Busy <= 0 || m.Busy >= m.Total {
		t.Errorf("machine %+v, error %v", m, err)
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

func FuzzParse(f *testing.F) {
	f.Add([]byte("42 (a) S 9 (b c) S 1 42 42 0 -1 4194560 2000 0 0 0 150 50 7 9 20 0 11 0 3000 1234567 300 1"))
	f.Add([]byte("cpu  100 10 40 700 30 5 15 100 9 9\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = parseUsage(b, 4096)
		_, _ = parseMachine(b)
		_ = parseModel(b)
		_ = parseFilesystem(b, "/a/b")
	})
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
