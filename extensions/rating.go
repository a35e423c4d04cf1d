package extensions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"corenode/extensions/capture"
	"corenode/extensions/guest"
	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// Quote is what a request may cost, and the pinned generation that will charge
// it: a swap while the request runs does not change its policy.
type Quote struct {
	host       *Host
	generation *generation
	request    string // its id
	in         abi.QuoteInput
	quoted     abi.Quote
	bounds     Bounds
	// provisional: what charges is only there because the operator's module
	// could not quote or is not loaded, and the charge is to be rated again.
	provisional bool
	closed      atomic.Bool
	captured    *capture.Request // nil: nothing is kept of it
}

// Bounds are what an offer says before the request runs.
type Bounds struct {
	// Upper bounds the charge of a usage within the quoted input and output; an account that
	// has less than Minimum is refused. 0 <= Minimum <= Upper.
	Upper, Minimum abi.Nano
	// CoveredUpper and CoveredMinimum are these bounds for a request that gets the Amount of
	// all of Takes, which is what it may take of the module's counters.
	CoveredUpper, CoveredMinimum abi.Nano
	Takes                        []abi.Counter
}

// Bounds are what the charge may be, and what it may take of counters.
func (q *Quote) Bounds() Bounds { return q.bounds }

// Quote asks billing what the request of an id may cost. The host fills in.Prices by
// in.Model; the error is ErrNoPrice for a model without one. A module that
// fails, or whose slot is over its share of the processors, is replaced by the
// builtin tariff for this request, which never waits.
func (h *Host) Quote(request string, in abi.QuoteInput) (*Quote, error) {
	var err error
	if in.Prices, err = h.Prices(in.Model); err != nil {
		return nil, err
	}
	sl := h.slot(SlotBilling)
	q := &Quote{host: h, request: request, in: in, captured: h.capture(sl, in.Account, request)}
	q.captured.Add(abi.OpQuote, in.Append)
	if q.generation, q.provisional = sl.acquire(in.Account); q.generation == nil {
		q.captured.End()
		return nil, absent("extensions.Quote", SlotBilling)
	}
	quoted, f := h.quote(q.generation, caller{in.Account, request, true}, in)
	if f != nil && q.generation != sl.builtin {
		q.generation.tally.fallbacks.Add(1)
		q.generation.release()
		sl.builtin.acquire() // never retired
		q.generation, q.provisional = sl.builtin, true
		quoted, f = h.quote(q.generation, caller{in.Account, request, true}, in)
	}
	if f != nil {
		q.Close()
		return nil, fmt.Errorf("quote for %q: %w", in.Model, f)
	}
	q.quoted = quoted
	q.bounds = Bounds{Upper: quoted.Upper, Minimum: quoted.Minimum, Takes: q.generation.manifest.Takes(quoted.Takes, in.At),
		CoveredUpper: quoted.CoveredUpper, CoveredMinimum: quoted.CoveredMinimum}
	return q, nil
}

// quote asks one generation and checks that the answer makes sense.
func (h *Host) quote(g *generation, of caller, in abi.QuoteInput) (abi.Quote, *guest.Fault) {
	advance, _, ok := g.admit(abi.OpQuote, 0)
	if !ok {
		return abi.Quote{}, overQuota
	}
	s := takeScratch()
	defer putScratch(s)
	s.in = in.Append(s.in[:0])
	var quoted abi.Quote
	o, f := h.call(h.slot(SlotBilling), g, abi.OpQuote, of, advance, s, func(o abi.Output) *guest.Fault {
		if o.Status == abi.StatusDecline {
			return nil
		}
		quoted, _ = abi.ParseQuote(o.Payload) // CheckOutput decoded it before
		return broken(probe.CheckQuote(quoted, len(g.manifest.Counters)))
	})
	if f == nil && o.Status == abi.StatusDecline {
		f = declined
	}
	if f != nil {
		return abi.Quote{}, f
	}
	return quoted, nil
}

// Charge rates what the request used, which holds of Takes what admission gave it. It may be
// called from any goroutine and more than once. A module that fails, whose charge breaks a rule, or whose slot
// is over its share of the processors, is replaced by the builtin tariff, and the
// charge is provisional.
func (q *Quote) Charge(u abi.Usage, held []abi.Counter) (Charge, error) {
	upper := probe.UpperOf(&q.quoted, q.generation.manifest.Held(held))
	if u.Input() > q.in.Input || u.Output > q.in.OutputMax {
		upper = -1 // the quote says nothing about more than was quoted
	}
	in := abi.ChargeInput{Prices: q.in.Prices, Usage: u, At: q.in.At, Model: q.in.Model, Account: q.in.Account}
	in.Held = q.generation.manifest.Held(held)
	q.captured.Charge(in, held)
	c, err := q.host.rate(q.generation, caller{account: in.Account, request: q.request}, in, held, upper, 0)
	c.Provisional = c.Provisional || q.provisional
	return c, err
}

// Close gives the generation back; more than once is harmless.
func (q *Quote) Close() {
	if q.closed.CompareAndSwap(false, true) {
		q.generation.release()
		q.captured.End()
	}
}

// Module is the digest of the generation that made the quote and will charge.
func (q *Quote) Module() string { return q.generation.digest }

// Provisional says that it quoted in place of the operator's module.
func (q *Quote) Provisional() bool { return q.provisional }

// Rate charges the request of an id without a quote, by the module that serves now and at the prices
// of in: what a crash left open, and what is rated again. No request waits for it,
// so it waits for the share. held is what the request holds of counters, of whichever module.
func (h *Host) Rate(request string, in abi.ChargeInput, held []abi.Counter) (Charge, error) {
	g, standsIn := h.slot(SlotBilling).acquire(in.Account)
	if g == nil { // what was spent is charged all the same, and rated again
		g = h.slot(SlotBilling).builtin
		g.acquire() // never retired
	}
	defer g.release()
	c, err := h.rate(g, caller{in.Account, request, true}, in, held, -1, guest.WaitMax)
	c.Provisional = c.Provisional || standsIn
	return c, err
}

// rate charges with g, for whose share it waits with patience, or else with the
// builtin tariff, which takes all that is held until the charge is rated again.
func (h *Host) rate(g *generation, of caller, in abi.ChargeInput, held []abi.Counter, upper abi.Nano, patience time.Duration,
) (Charge, error) {
	s := takeScratch()
	defer putScratch(s)
	in.Held, s.held = g.manifest.Held(held), held
	s.in = in.Append(s.in[:0])
	sl := h.slot(SlotBilling)
	c, f := h.charge(g, of, in, upper, patience, s)
	c.Counters = g.manifest.Taken(held, c.taken, in.Usage)
	if f != nil && g != sl.builtin {
		g.tally.fallbacks.Add(1)
		in.Held = nil
		s.in = in.Append(s.in[:0])
		c, f = h.charge(sl.builtin, of, in, -1, 0, s)
		c.Provisional, c.Counters = true, abi.Settled(held, in.Usage)
	}
	if f != nil {
		return Charge{}, fmt.Errorf("charge for %q: %w", in.Model, f)
	}
	hash := sha256.Sum256(s.in)
	c.Input, c.InputHash = append([]byte(nil), s.in...), hex.EncodeToString(hash[:])
	return c, nil
}

// charge asks one generation for the charge of s.in and holds it to the rules.
func (h *Host) charge(g *generation, of caller, in abi.ChargeInput, upper abi.Nano, patience time.Duration,
	s *scratch) (Charge, *guest.Fault) {
	advance, _, ok := g.admit(abi.OpCharge, patience)
	if !ok {
		return Charge{}, overQuota
	}
	var c abi.Charge
	o, f := h.call(h.slot(SlotBilling), g, abi.OpCharge, of, advance, s, func(o abi.Output) *guest.Fault {
		if o.Status == abi.StatusDecline {
			return nil
		}
		c, _ = abi.ParseCharge(o.Payload) // CheckOutput decoded it before
		return broken(probe.CheckCharge(c, in, upper, g.manifest.Free))
	})
	if f == nil && o.Status == abi.StatusDecline {
		f = declined
	}
	if f != nil {
		return Charge{}, f
	}
	return newCharge(c, g.digest), nil
}

// Replay runs the recorded input of a charge through the module with that
// digest, loaded or kept on disk, and gives what it says now. Nothing is
// counted and nothing replaces a module that fails.
func (h *Host) Replay(digest string, input []byte) (Charge, error) {
	in, err := abi.ParseChargeInput(input)
	if err != nil {
		return Charge{}, fmt.Errorf("the input of %d bytes is no charge input: %w", len(input), err)
	}
	g, done, err := h.charging(digest)
	if err != nil {
		return Charge{}, err
	}
	defer done()
	return replay(g, in, nil)
}

// charging is the billing generation with that digest, in memory or opened for this alone; done ends its use.
func (h *Host) charging(digest string) (g *generation, done func(), err error) {
	h.mu.Lock()
	g = h.modules.serving(digest)
	h.mu.Unlock()
	if g != nil {
		return g, g.release, nil
	}
	if g, err = h.reopen(digest); err != nil {
		return nil, nil, err
	}
	return g, g.retire, nil
}

// Settling charges what was left open, each request by the module that quoted it, and opens a module that
// is not in memory once, for all of its requests. It belongs to one goroutine.
type Settling struct {
	host *Host
	by   map[string]settler // by digest
}

// settler is a module that is asked for charges, or why it cannot be.
type settler struct {
	*generation
	done func() // nil with err
	err  error
}

// Settling opens nothing before the first charge asks for it.
func (h *Host) Settling() *Settling { return &Settling{h, map[string]settler{}} }

// RateBy charges a request that holds counters by the module with that digest, as Replay does.
func (s *Settling) RateBy(digest string, in abi.ChargeInput, held []abi.Counter) (Charge, error) {
	by, asked := s.by[digest]
	if !asked {
		by.generation, by.done, by.err = s.host.charging(digest)
		s.by[digest] = by
	}
	if by.err != nil {
		return Charge{}, by.err
	}
	in.Held = by.manifest.Held(held)
	return replay(by.generation, in, held)
}

// Close gives the modules back.
func (s *Settling) Close() {
	for _, by := range s.by {
		if by.err == nil {
			by.done()
		}
	}
	s.by = nil
}

func replay(g *generation, in abi.ChargeInput, held []abi.Counter) (Charge, error) {
	input := in.Append(nil)
	out, f := g.do(abi.OpCharge, caller{account: in.Account}, input, 0, nil)
	if f != nil {
		return Charge{}, f
	}
	o, _ := abi.ParseOutput(out) // do has checked it
	if o.Status == abi.StatusDecline {
		return Charge{}, declined
	}
	c, _ := abi.ParseCharge(o.Payload)
	if p := probe.CheckCharge(c, in, -1, g.manifest.Free); p != nil {
		return Charge{}, errors.New(p.What)
	}
	hash := sha256.Sum256(input)
	charge := newCharge(c, g.digest)
	charge.Input, charge.InputHash, charge.Counters = input, hex.EncodeToString(hash[:]), g.manifest.Taken(held, c.Taken, in.Usage)
	return charge, nil
}
