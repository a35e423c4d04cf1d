package main

import (
	"errors"
	"maps"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// TestPricesAtTheTimeOfAQuote: what a crash left open is charged at the prices of its quote, however
// often they changed since; what is older than any request is forgotten.
func TestPricesAtTheTimeOfAQuote(t *testing.T) {
	listed := func(a, b int64) map[string]abi.Prices {
		return map[string]abi.Prices{"a": {Input: abi.Nano(a)}, "b": {Input: abi.Nano(b)}}
	}
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.FixedZone("east", 3600))
	kept := pricesAfter(listed(1, 1), listed(1, 1), listed(2, 1), noon)
	kept = pricesAfter(kept, listed(2, 1), listed(3, 5), noon.Add(time.Hour))
	for _, c := range []struct {
		model string
		at    time.Time
		want  abi.Nano
	}{{"a", noon.Add(-1), 1}, {"a", noon, 2}, {"a", noon.Add(time.Hour - 1), 2}, {"a", noon.Add(time.Hour), 3},
		{"b", noon, 1}, {"b", noon.Add(2 * time.Hour), 5}} {
		if p, ok := pricesAt(kept, c.model, c.at); !ok || p.Input != c.want {
			t.Errorf("%s at %v: %v, %v; want %d", c.model, c.at, p.Input, ok, c.want)
		}
	}
	if _, ok := pricesAt(kept, "c", noon); ok {
		t.Error("a model that was never listed has prices")
	}
	kept[pricesUntil("a", noon.Add(27*time.Hour))] = abi.Prices{} // of a change that did not come about
	kept = pricesAfter(kept, listed(3, 5), listed(4, 5), noon.Add(26*time.Hour))
	if _, ok := kept[pricesUntil("a", noon)]; len(kept) != 3 || ok { // both models, and a's prices until now
		t.Errorf("kept are %v", kept)
	}
}

// writtenPrices is a store in which something happens while prices are written.
type writtenPrices struct {
	store.Store // nil: nothing else is asked
	kept        map[string]abi.Prices
	writes      int
	meanwhile   func(write int) error
}

func (s *writtenPrices) KeptPrices() (map[string]abi.Prices, error) { return s.kept, nil }

func (s *writtenPrices) KeepPrices(all map[string]abi.Prices) error {
	s.writes++
	if err := s.meanwhile(s.writes); err != nil {
		return err
	}
	s.kept = maps.Clone(all)
	return nil
}

// TestQuotesWhilePricesAreWritten: what is quoted before, while and after a change of prices is written
// is rated at its quote after a crash. A change that cannot be written to its end leaves both as they were.
func TestQuotesWhilePricesAreWritten(t *testing.T) {
	before, now := map[string]abi.Prices{"a": {Input: 1}}, map[string]abi.Prices{"a": {Input: 2}}
	broken := errors.New("no space")
	for _, fails := range []int{0, 1, 2} { // the write that fails
		s := &writtenPrices{kept: before}
		n := &node{store: s, modules: new(extensions.Host)}
		n.modules.SetPrices(before)
		type quote struct {
			began  time.Time
			prices abi.Prices
		}
		var quotes []quote
		begin := func() {
			q := quote{began: time.Now()}
			q.prices, _ = n.modules.Prices("a")
			quotes = append(quotes, q)
		}
		s.meanwhile = func(write int) error {
			if write == fails {
				return broken
			}
			begin()
			return nil
		}
		begin()
		err := n.listPrices(before, now)
		begin()
		want := now
		if fails > 0 {
			want = before
		}
		if got, _ := n.modules.Prices("a"); got != want["a"] || errors.Is(err, broken) != (fails > 0) {
			t.Errorf("when write %d fails the prices are %v: %v", fails, got, err)
		}
		for i, q := range quotes {
			if p, _ := pricesAt(s.kept, "a", q.began); p != q.prices {
				t.Errorf("when write %d fails quote %d at %v is rated at %v", fails, i, q.prices, p)
			}
		}
	}
}
