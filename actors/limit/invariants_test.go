//go:build invariants

package limit

import (
	"fmt"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

func counters(n int64) []abi.Counter {
	return []abi.Counter{{Name: "m/tokens", Period: "2026-11", Limit: 200, Amount: n}}
}

// faults break one invariant each, of a state with one request that holds money and one
// that is short of it.
var faults = []struct {
	name  string
	plant func(s *State)
	want  string // in the panic
}{
	{"a permit too many", func(s *State) { s.permits++ }, "counted 3 permits"},
	{"a permit lost", func(s *State) { s.permits-- }, "counted 1 permits"},
	{"money held for nobody", func(s *State) { s.held += 5 }, "held"},
	{"a sum that forgot an orphan", func(s *State) { s.orphans["dead"] = orphan{hold: 7} }, "held"},
	{"short of more than anybody is", func(s *State) { s.short++ }, "short"},
	{"a counter that forgot an orphan", func(s *State) { s.orphans["dead"] = orphan{counters: counters(7)} }, "which nobody counted"},
	{"a counter that nobody holds", func(s *State) { s.count(nil, counters(7)) }, "0 are used and 7 held"},
	{"a hold below zero", func(s *State) { s.put("a", held{permit: true, hold: -1}) }, "request a has"},
	{"a request that has nothing", func(s *State) { s.open["c"] = held{} }, "request c has"},
	{"a request from the future", func(s *State) { s.open["a"] = held{permit: true, hold: 60, arrival: 9} }, "request a has"},
	{"a bucket that overflows", func(s *State) { s.bucket.Parts = s.bucket.Capacity*partsPerToken + 1 }, "a bucket of 1000 tokens"},
	{"money kept from one who is short", func(s *State) { s.balance += 10 }, "10 available while requests are 20 short"},
}

// TestPlantedFaults: the check sees each broken invariant in the next call, here one
// that is refused and changes nothing.
func TestPlantedFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := loadedState(account.Account{ID: "a", TokensPerMinute: 1000}, 100)
			for _, id := range []string{"a", "b"} {
				if _, err := s.Reserve(Ask{RequestID: id, Upper: 60, Minimum: 10}, start); err != nil {
					t.Fatal(err)
				}
			}
			f.plant(s)
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, f.want) {
					t.Errorf("the check says %q, want something about %q", got, f.want)
				}
			}()
			_, _ = s.Reserve(Ask{RequestID: "c", Upper: 500, Minimum: 500}, start)
		})
	}
}
