package profile

import (
	"bytes"
	"math"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// burn takes so much of a processor's time, however long that is on the clock.
//
//go:noinline
func burn(length time.Duration) (x float64) {
	used := func() time.Duration {
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // fails for no arguments like these
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	end := used() + length
	for x = 1; used() < end; {
		for range 100_000 {
			x = math.Sqrt(x + 1)
		}
	}
	return x
}

// The oracle is Go's runtime, which writes what we read.
func TestParseReadsTheRuntimesProfile(t *testing.T) {
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		t.Skip(err)
	}
	burn(300 * time.Millisecond)
	pprof.StopCPUProfile()
	samples, err := Parse(b.Bytes())
	if err != nil || len(samples) == 0 {
		t.Fatalf("%d samples, error %v", len(samples), err)
	}
	shares := Divide(samples, []Rule{{"burn", []string{"corenode/bench/profile.burn"}}}, "rest")
	if shares[0].Part < 0.5 || math.Abs(shares[0].Part+shares[1].Part-1) > 1e-9 {
		t.Errorf("shares %+v", shares)
	}
	if i := slices.IndexFunc(samples, func(s Sample) bool { return slices.Contains(s.Stack, "corenode/bench/profile.burn") }); i < 0 ||
		!slices.ContainsFunc(samples[i].Stack, func(f string) bool { return strings.HasSuffix(f, "TestParseReadsTheRuntimesProfile") }) {
		t.Errorf("no stack leads from this test to burn")
	}
}

var stacks = []Sample{
	{[]string{"write", "db.put", "main"}, 60}, {[]string{"write", "http.send", "main"}, 30}, {[]string{"idle"}, 10}, {nil, 0},
}

func TestDivideTakesTheFirstRule(t *testing.T) {
	got := Divide(stacks, []Rule{{"store", []string{"db."}}, {"all of main", []string{"x.", "main"}}, {"none", []string{"y"}}}, "other")
	want := []Share{{"store", 0.6}, {"all of main", 0.3}, {"none", 0}, {"other", 0.1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Divide(nil, nil, "other"); !slices.Equal(got, []Share{{"other", 0}}) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestTop(t *testing.T) {
	if got, want := Top(stacks, 1), []Share{{"write", 0.9}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Top(stacks, 9); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, b := range map[string][]byte{"no gzip": []byte("hello"), "nothing": nil} {
		if _, err := Parse(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
