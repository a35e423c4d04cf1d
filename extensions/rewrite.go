package extensions

import (
	"bytes"
	"time"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Rewriting says whether any request of an account would be rewritten, so that a caller
// without such a module hands nothing over.
func (h *Host) Rewriting() bool { return h.occupied(SlotRewrite) }

// Filtering says whether any answer would be filtered.
func (h *Host) Filtering() bool { return h.occupied(SlotFilter) }

// occupied says whether a kind of policy has a module, or should have.
func (h *Host) occupied(kind Slot) bool {
	for _, sl := range h.members(kind) {
		if a := sl.now.Load(); a.active != nil || a.missing || a.canaryPercent > 0 {
			return true
		}
	}
	return false
}

// Rewrite hands the messages body of the request of an id through the rewrite modules in
// their order, and gives what comes out, which the caller owns. Each gets what the one
// before it gave; one that declines changes nothing. The error is an *abi.Error:
// InvalidRequest with what a module says to the client, or Overloaded. A module that fails,
// is not in memory or is over its share for too long lets nothing pass: what it should
// have kept out would be in.
func (h *Host) Rewrite(request string, in abi.RewriteInput) ([]byte, error) {
	patience := quotaWaitMax
	for _, sl := range h.members(SlotRewrite) {
		g, standsIn := sl.acquire(in.Account)
		if g == nil {
			if standsIn {
				return nil, absent("extensions.Rewrite", sl.name)
			}
			continue
		}
		advance, waited, ok := g.admit(abi.OpRewrite, patience)
		if !ok {
			g.release()
			return nil, overloaded("extensions.Rewrite", overQuota)
		}
		patience -= min(waited, patience)
		body, err := h.rewrite(sl, g, request, in, advance)
		g.release()
		if err != nil {
			return nil, err
		}
		if body != nil {
			in.Body = body
		}
	}
	return in.Body, nil
}

// rewrite asks one module; nil is the body as it was.
func (h *Host) rewrite(sl *slot, g *generation, request string, in abi.RewriteInput, advance time.Duration) ([]byte, error) {
	s := takeScratch()
	defer putScratch(s)
	s.in = in.Append(s.in[:0])
	o, f := h.call(sl, g, abi.OpRewrite, caller{in.Account, request, true}, advance, s, nil)
	switch {
	case f != nil:
		return nil, overloaded("extensions.Rewrite", f)
	case o.Status == abi.StatusError:
		return nil, refusal("extensions.Rewrite", o)
	case o.Status == abi.StatusDecline || len(o.Payload) == 0:
		return nil, nil
	}
	return bytes.Clone(o.Payload), nil
}

// Filter is one answer's use of the filter modules, pinned to the generations that it began
// with. It belongs to one goroutine.
type Filter struct {
	host    *Host
	of      caller
	members []filterMember
}

type filterMember struct {
	slot       *slot
	generation *generation
	state      []byte // of the block that is open; its capacity is used again
	got, gave  int    // bytes of the answer so far
	began      bool   // it was asked
}

// Filter opens the filtering of one answer; nil where no module filters. The error is
// Overloaded: one that should is not in memory. Close gives the generations back.
func (h *Host) Filter(account, request string) (*Filter, error) {
	f := &Filter{host: h, of: caller{account: account, request: request}}
	for _, sl := range h.members(SlotFilter) {
		g, standsIn := sl.acquire(account)
		switch {
		case g != nil:
			f.members = append(f.members, filterMember{slot: sl, generation: g})
		case standsIn:
			f.Close()
			return nil, absent("extensions.Filter", sl.name)
		}
	}
	if len(f.members) == 0 {
		return nil, nil
	}
	return f, nil
}

// Close gives the generations back; more than once is harmless.
func (f *Filter) Close() {
	for _, m := range f.members {
		m.generation.release()
	}
	f.members = nil
}

// Text hands the next piece of a block through the modules in their order; with last the
// block ends, and all that was held back comes out. After an error, which is Internal,
// nothing more of the answer may leave: text that a module has not seen must not.
func (f *Filter) Text(facts abi.Facts, block abi.BlockKind, text string, last bool) (string, error) {
	for i := range f.members {
		m := &f.members[i]
		if text == "" && !last {
			return "", nil
		}
		var err error
		if text, err = f.text(m, abi.FilterInput{Facts: facts, Block: block, Last: last, State: m.state, Text: text}); err != nil {
			return "", err
		}
		if last {
			m.state = m.state[:0]
		}
	}
	return text, nil
}

// text asks one module. It waits for the share: nothing else can filter.
func (f *Filter) text(m *filterMember, in abi.FilterInput) (string, error) {
	g := m.generation
	advance := g.throttle.delay(g.pool.Mean(abi.OpFilter))
	s := takeScratch()
	defer putScratch(s)
	s.in = in.Append(s.in[:0])
	of := f.of
	of.begins, m.began = !m.began, true
	o, fault := f.host.call(m.slot, g, abi.OpFilter, of, advance, s, func(o abi.Output) *guest.Fault { return m.broken(&in, o) })
	switch {
	case fault != nil:
		return "", &abi.Error{Kind: abi.Internal, Op: "extensions.Filter", Msg: "internal error", Err: fault}
	case o.Status == abi.StatusDecline:
		return in.Text, nil
	}
	out, _ := abi.ParseFiltered(o.Payload) // CheckOutput decoded it before
	m.got, m.gave = m.got+len(in.Text), m.gave+len(out.Text)
	m.state = append(m.state[:0], out.State...)
	return string(out.Text), nil
}

// broken is the fault of an answer that loses text or makes too much of it.
func (m *filterMember) broken(in *abi.FilterInput, o abi.Output) *guest.Fault {
	if o.Status == abi.StatusDecline {
		if len(in.State) > 0 {
			return guest.Faultf(guest.CauseProtocol, "it declines while it holds %d bytes back", len(in.State))
		}
		return nil
	}
	out, _ := abi.ParseFiltered(o.Payload) // CheckOutput decoded it before
	if in.Last && len(out.State) > 0 {
		return guest.Faultf(guest.CauseProtocol, "its block has ended, and it holds %d bytes back", len(out.State))
	}
	got := m.got + len(in.Text)
	if most := guest.FilteredMax(got); m.gave+len(out.Text) > most {
		return guest.Faultf(guest.CauseProtocol, "of the %d bytes of an answer it has made over %d", got, most)
	}
	return nil
}
