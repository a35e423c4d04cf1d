package option

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// values are one of each kind.
type values struct {
	count, any int
	wait, long time.Duration
	share, up  float64
	file, note string
	only       []string
}

func (v *values) list() List {
	return List{
		Int(&v.count, "count", 5, 1, 10, "how many"),
		Int(&v.any, "any", 1, 1, math.MaxInt, "how many, without a bound"),
		Duration(&v.wait, "wait", time.Second, 0, time.Minute, "how long"),
		Duration(&v.long, "long", time.Hour, 1, Unlimited, "how long, without a bound"),
		Float(&v.share, "share", 0.5, 0, 1, "how much"),
		Positive(&v.up, "up", 2, "how much more"),
		Text(&v.file, "file", "", "a name", "which"),
		Text(&v.note, "note", "", "", "what else"),
		Texts(&v.only, "only", "which ones"),
		Check(func() error {
			if v.note == "bad" {
				return errors.New("--note is bad")
			}
			return nil
		}),
	}
}

func TestDefaultsAreWithinTheirBounds(t *testing.T) {
	var v values
	v.list().Reset()
	v.file = "f"
	if err := v.list().Validate(); err != nil || v.count != 5 || v.wait != time.Second || v.share != 0.5 {
		t.Errorf("%+v: %v", v, err)
	}
}

func TestEveryBoundNamesItsFlag(t *testing.T) {
	bad := values{count: 11, any: 0, wait: time.Hour, long: 0, share: math.NaN(), up: 0, note: "bad"}
	err := bad.list().Validate()
	for _, want := range []string{"--count is 11, want 1 to 10", "--any is 0, want at least 1", "--wait is 1h0m0s, want 0s to 1m0s",
		"--long is 0s, want at least 1ns", "--share is NaN, want 0 to 1", "--up is 0, want more than 0", "--file is missing, want a name", "--note is bad"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestFlagsSetWhatTheyAreFor(t *testing.T) {
	var v values
	v.list().Reset()
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	v.list().Register(f)
	if err := f.Parse([]string{"--count", "7", "--wait=3s", "--share", "0.25", "--file", "f", "--only", "a,b"}); err != nil {
		t.Fatal(err)
	}
	if v.count != 7 || v.wait != 3*time.Second || v.share != 0.25 || v.file != "f" || len(v.only) != 2 || v.up != 2 {
		t.Errorf("%+v", v)
	}
	if got := f.Lookup("wait").DefValue; got != "1s" {
		t.Errorf("the help says default %s", got)
	}
}
