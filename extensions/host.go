package extensions

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"corenode/wasm/abi"
)

// Host runs the modules of a node.
type Host struct {
	builder
	folder  folder
	routing atomic.Pointer[routing] // of the slots of other protocols; replaced with mu held
	ready   chan struct{}

	closing context.Context // done when Close begins
	close   context.CancelCauseFunc

	prices atomic.Pointer[map[string]abi.Prices] // by model id; a map in it is not written to

	stateDamaged atomic.Bool // see StateDamaged

	building sync.Mutex // one module is built at a time; taken before changing
	changing sync.Mutex // one change at a time of what mu guards, until it is kept; taken before mu, never for a request

	// mu guards what follows, and every change of an assignment. It is held over writes to Dir, never while
	// a module is built or Options.Keep is asked. Who changes the state, an assignment or what is in memory
	// has changing, too.
	mu         sync.Mutex
	modules    registry
	state      state
	number     int64           // of the state, as Options.Keep counts
	numbers    int             // of the last generation
	kept       int             // see KeepShipped
	insisting  map[string]bool // digests of modules that are compiled again where it was killed
	closed     bool
	background sync.WaitGroup
	// lacking are the files of policies that ship and came into memory, by digest, which Dir did not take.
	lacking map[string]func() ([]byte, error)
}

// Ready is closed when everything that is to be loaded at the start has been,
// or has failed to.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// lock begins a change, and everything else that must not see one that may not be kept.
func (h *Host) lock() {
	h.changing.Lock()
	h.mu.Lock()
}

func (h *Host) unlock() {
	h.mu.Unlock()
	h.changing.Unlock()
}

// spawn runs f in the background, unless the host is being closed. mu is held.
func (h *Host) spawn(f func()) {
	if !h.closed {
		h.background.Go(f)
	}
}

// StateDamaged says whether this start did not find state.json whole, and no
// operator chose for a slot since: a copy stands for it, or which modules
// served is not known.
func (h *Host) StateDamaged() bool { return h.stateDamaged.Load() }

// Missing says whether the module that an operator chose for a slot, or for a
// share of its accounts, is not in memory, yet or any more: charges are
// provisional then, and admission refuses.
func (h *Host) Missing(s Slot) bool {
	a := h.slot(s).now.Load()
	return a.missing || a.canaryPercent > 0 && a.canary == nil
}

// Prices are the listed ones of a model; the error is ErrNoPrice where there are none.
func (h *Host) Prices(model string) (abi.Prices, error) {
	prices, ok := (*h.prices.Load())[model]
	if !ok {
		return prices, fmt.Errorf("%q: %w", model, ErrNoPrice)
	}
	return prices, nil
}

// SetPrices lists other prices, for quotes from now on. Who has a quote is charged by it.
func (h *Host) SetPrices(prices map[string]abi.Prices) { h.prices.Store(&prices) }

// Slots are the names of all slots there are, in the order that lists show.
func (h *Host) Slots() (names []Slot) {
	for _, sl := range h.allSlots() {
		names = append(names, sl.name)
	}
	return names
}
