package powercut

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCuts: at each moment there is all that was synced, and any part of the rest. A part of a write ends where a sector does.
func TestCuts(t *testing.T) {
	log := Log{Start: Files{"b": []byte("old")}}
	log.Write("a", []byte("one"), 0)
	log.Write("a", slices.Repeat([]byte("x"), 2*sector), sector/2)
	log.Write("b", []byte("N"), 0)
	log.Sync("a")
	log.Remove("b")
	log.SyncFolder()
	got := map[int][]string{}
	log.Cuts(1<<40, func(c Cut) {
		a, b := string(c.Files["a"]), string(c.Files["b"])
		got[c.Steps] = append(got[c.Steps], fmt.Sprintf("%.3q %d %d %q", a, len(a), strings.Count(a, "x"), b))
	})
	for steps, want := range map[int][]string{
		0: {`"" 0 0 "old"`},
		1: {`"" 0 0 "old"`, `"one" 3 0 "old"`},
		2: {`"" 0 0 "old"`, `"one" 1280 1024 "old"`, `"\x00\x00\x00" 1280 1024 "old"`, `"one" 3 0 "old"`,
			`"one" 1280 768 "old"`, `"one" 512 256 "old"`, `"one" 1280 512 "old"`, `"one" 1024 768 "old"`},
		4: {`"one" 1280 1024 "old"`, `"one" 1280 1024 "Nld"`},
		5: {`"one" 1280 1024 "old"`, `"one" 1280 1024 ""`, `"one" 1280 1024 ""`, `"one" 1280 1024 "Nld"`},
		6: {`"one" 1280 1024 ""`},
	} {
		if !slices.Equal(got[steps], want) {
			t.Errorf("after step %d\n%q, want\n%q", steps, got[steps], want)
		}
	}
}
