package profile

import (
	"bytes"
	"math"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

//go:noinline
func burn(until time.Time) (x float64) {
	for x = 1; time.Now().Before(until); {
		for range 1000 {
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
	burn(time.Now().Add(300 * time.Millisecond))
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
	for name, b := range map[string]string{
		"cut tag": "\x80", "length beyond the end": "\x12\x05a", "unknown wire type": "\x13",
		"cut fixed": "\x09abc", "sample of one value": "\x12\x02\x10\x01", "nameless function": "\x12\x06\x08\x01\x10\x01\x10\x01\x22\x06\x08\x01\x22\x02\x08\x07",
	} {
		if got, err := parse([]byte(b)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\x12\x06\x08\x01\x10\x01\x10\x07\x22\x06\x08\x01\x22\x02\x08\x07\x2a\x04\x08\x07\x10\x00\x32\x01f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		samples, err := parse(b)
		if err == nil {
			Top(samples, 3)
		}
	})
}
