package main

import (
	"errors"
	"maps"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

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
			if p, _ := rules.PricesAt(s.kept, "a", q.began); p != q.prices {
				t.Errorf("when write %d fails quote %d at %v is rated at %v", fails, i, q.prices, p)
			}
		}
	}
}
