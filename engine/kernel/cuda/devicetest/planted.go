package devicetest

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
)

// Mutants are texts of a module with a fault planted in a kernel: at each line that matches, or at the
// first places of them where that is not 0, it becomes with; "" takes the whole line away.
func Mutants(t *testing.T, text, kernel, line, with string, places int) (all []string) {
	t.Helper()
	matches, within := regexp.MustCompile(line), false
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".visible .entry ") {
			within = strings.HasPrefix(l, ".visible .entry "+kernel+"(")
		}
		if !within || !matches.MatchString(l) || places > 0 && len(all) == places {
			continue
		}
		changed := matches.ReplaceAllString(l, with)
		if with == "" {
			changed = ""
		}
		all = append(all, strings.Join(lines[:i], "\n")+"\n"+changed+"\n"+strings.Join(lines[i+1:], "\n"))
	}
	if len(all) == 0 {
		t.Fatalf("nothing in %s matches %s", kernel, line)
	}
	return all
}

// Reported runs something on a device and returns what it says, or what the device reported.
func Reported(run func() string) (how string) {
	defer func() {
		e := recover()
		if e == nil {
			return
		}
		var failed *cuda.Error
		if err, ok := e.(error); !ok || !errors.As(err, &failed) {
			panic(e)
		}
		how = failed.Error()
	}()
	return run()
}

// WantFound wants that a planted fault showed: in a report that matches want, or, where that is empty, anyhow.
func WantFound(t *testing.T, place int, how, want string) {
	t.Helper()
	if how == "" || want != "" && !regexp.MustCompile(want).MatchString(how) {
		t.Errorf("place %d: %q, want %q", place, how, want)
	}
	if place == 0 {
		t.Log(how)
	}
}

// Fixed are n numbers, the same ones for every mutant and for the reference.
func Fixed(n int) []float32 { return Normals(rand.New(rand.NewPCG(5, 5)), n, 1) }
