package tree

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"corenode/extensions"
	"corenode/wasm/abi"
)

// probePrefix begins the ids of requests whose quote is what fakeBilling.probe says.
const probePrefix = "probe-"

// fakeBilling charges 2 per uncached, 1 per cached and 10 per output token.
type fakeBilling struct {
	probe  atomic.Int64
	broken atomic.Bool
	open   atomic.Int64 // quotes that were not closed
	stands atomic.Bool  // quotes are another module's, which cannot
	promo  atomic.Bool  // quotes have a minimum of 0: the first tokens may be free
	free   atomic.Int64 // how many tokens are free in a month
}

func (b *fakeBilling) Quote(id string, a abi.QuoteInput) (Quote, error) {
	q := &fakeQuote{b: b, upper: abi.Nano(2*a.Input + 10*a.OutputMax), minimum: abi.Nano(2*a.Input + 10)}
	q.minimum = min(q.minimum, q.upper)
	if b.promo.Load() {
		q.minimum = 0
	}
	if strings.HasPrefix(id, probePrefix) {
		q.upper, q.minimum = abi.Nano(b.probe.Load()), abi.Nano(b.probe.Load())
	}
	if n := b.free.Load(); n > 0 {
		q.takes = []abi.Counter{{Name: "fake/tokens", Period: time.Unix(a.At, 0).UTC().Format("2006-01"), Limit: n, Amount: a.Input + a.OutputMax}}
	}
	b.open.Add(1)
	return q, nil
}

// fakeQuote counts itself among the open ones until it is closed.
type fakeQuote struct {
	b              *fakeBilling
	upper, minimum abi.Nano
	takes          []abi.Counter
	closed         atomic.Bool
}

func (q *fakeQuote) Bounds() extensions.Bounds {
	return extensions.Bounds{Upper: q.upper, Minimum: q.minimum, Takes: q.takes}
}
func (q *fakeQuote) Module() string    { return "fake:1" }
func (q *fakeQuote) Provisional() bool { return q.b.stands.Load() }

func (q *fakeQuote) Charge(u abi.Usage, held []abi.Counter) (extensions.Charge, error) {
	switch {
	case q.closed.Load():
		return extensions.Charge{}, errors.New("the quote is closed")
	case q.b.broken.Load():
		panic("module trapped")
	}
	c := extensions.Charge{Amount: abi.Nano(2*u.InputUncached + u.CacheRead + 10*u.Output), Tier: 1, ModuleDigest: "fake:1", Input: []byte("in")}
	for _, h := range held { // the first tokens of a month are free
		h.Amount = min(h.Amount, u.Input()+u.Output)
		c.Counters = append(c.Counters, h)
		c.Amount = max(c.Amount-10*abi.Nano(h.Amount), 0)
	}
	return c, nil
}

func (q *fakeQuote) Close() {
	if q.closed.CompareAndSwap(false, true) {
		q.b.open.Add(-1)
	}
}
