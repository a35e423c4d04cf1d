package postgres

import (
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// row does to an account what a row of the ledger says. isNew: it was not there before.
func (w *work) row(e *account.Entry, isNew bool) error {
	id := clean(e.RequestID)
	switch a := w.accounts[clean(e.AccountID)]; e.Kind {
	case account.Checkpoint:
		w.points[id] = e.ID
	case account.Hold:
		if isNew && !w.known[id].settled {
			w.begin(a, e, e.Held)
			delete(w.points, id)
		}
		w.note(id, requestRows{hold: true})
	case account.Settlement:
		if q := w.open[id]; q != nil && !q.free && !q.ended && q.account != a.id {
			return rules.ErrOthersHold
		}
		w.note(id, requestRows{settled: true})
		w.settle(a, e, isNew)
	default:
		if isNew {
			a.state.Settle(limit.Settle{Amount: e.Amount, Counters: counted(e), KeyID: clean(e.KeyID), At: e.Time, Seq: 1})
		}
	}
	return nil
}

func (w *work) note(id string, more requestRows) {
	k := w.known[id]
	w.known[id] = requestRows{k.hold || more.hold, k.settled || more.settled}
}

// counted are the counters of a row as they are kept.
func counted(e *account.Entry) []abi.Counter {
	all := make([]abi.Counter, len(e.Counters))
	for i, n := range e.Counters {
		n.Name, n.Period = clean(n.Name), clean(n.Period)
		all[i] = n
	}
	return all
}

// begin notes a request whose hold was decided on its node: by a grant, or by nobody.
func (w *work) begin(a *held, e *account.Entry, amount abi.Nano) *request {
	q := &request{Live: limit.Live{RequestID: clean(e.RequestID), Hold: amount, Upper: amount, KeyID: clean(e.KeyID), Counters: counted(e)},
		account: a.id, held: amount, holdID: e.ID, gone: true, fresh: true}
	if q.KeyID != "" {
		q.KeyHold = amount
	}
	w.open[q.RequestID] = q
	g := e.Granted
	if g == nil {
		a.state.Add(q.Live, 0)
		q.Arrival = w.arrival(a, q)
		return q
	}
	q.Permit, q.gone, q.taken = true, false, g.Tokens
	a.state.Add(q.Live, g.Tokens)
	q.Arrival = w.arrival(a, q)
	moved := limit.Part{}
	if from := a.grant(g.Number); from != nil { // as its node counts it, also when the account has other limits by now
		of := limit.Reservation{Tokens: g.Tokens, Hold: amount, AnyPermits: g.AnyPermits, AnyMoney: g.AnyMoney}.Of()
		moved = of.Atmost(from.left())
		from.moved, from.changed = from.moved.Plus(moved), true
		a.state.Lend(limit.Part{}.Minus(moved))
	}
	anyPermits, anyTokens, anyMoney := a.state.Any()
	if !anyPermits && moved.Permits < 1 || !anyTokens && moved.Tokens < g.Tokens || !anyMoney && moved.Money < amount {
		a.overshot++
	}
	return q
}

func (w *work) arrival(a *held, q *request) uint64 {
	l, _ := a.state.Open(q.RequestID)
	return l.Arrival
}

func (a *held) grant(number int64) *grant {
	for _, g := range a.grants {
		if g.number == number && !g.ended {
			return g
		}
	}
	return nil
}

// settle closes what a request has open, and charges a settlement that is new.
func (w *work) settle(a *held, e *account.Entry, isNew bool) {
	id := clean(e.RequestID)
	q := w.open[id]
	if q == nil && isNew && e.Granted != nil { // its hold was never written: this row stands for both
		q = w.begin(a, e, e.Granted.Held)
	}
	if q != nil && q.account == a.id && !q.ended {
		w.leave(a, q, spent(e))
		q.ended = true
	}
	m := limit.Settle{RequestID: id, KeyID: clean(e.KeyID), At: e.Time}
	if isNew {
		m.Amount, m.Counters, m.Seq = e.Amount, counted(e), 1
	}
	a.state.Settle(m)
}

// spent is what a settled request used of token buckets; after a crash, what is charged.
func spent(e *account.Entry) int64 {
	if e.Spent != 0 {
		return e.Spent
	}
	return e.Usage.InputUncached + e.Usage.CacheWrite + e.Usage.Output
}

// leave gives the permit and the tokens of a request back, once.
func (w *work) leave(a *held, q *request, used int64) {
	m := limit.Leave{RequestID: q.RequestID}
	if !q.gone {
		m.Taken, m.Used, m.KeyTaken = q.taken, used, q.keyTaken
	}
	if b, ok := a.state.KeyBucket(q.KeyID); ok && !q.gone {
		m.Key = account.LimitedKey{ID: q.KeyID, TokensPerMinute: b.Capacity}
		a.touched[q.KeyID] = true
	}
	a.state.Leave(m, w.now)
	q.Permit, q.gone, q.changed = false, true, true
}

// release ends a request before its settlement, or one that has none.
func (w *work) release(id string, used int64) {
	q := w.open[clean(id)]
	if q == nil || q.gone || q.ended || w.accounts[q.account] == nil {
		return
	}
	w.leave(w.accounts[q.account], q, used)
	q.ended = q.free
}

// giveBack takes what a node returns of its grant.
func (w *work) giveBack(r limit.Return) {
	a := w.accounts[clean(r.AccountID)]
	if a == nil {
		return
	}
	g := a.grant(r.Number)
	if g == nil || g.node != w.s.node {
		return
	}
	more := r.Part.Minus(g.back).Atmost(g.left())
	g.back, g.changed, g.wanted = g.back.Plus(more), true, false
	a.state.Lend(limit.Part{}.Minus(more))
}

// endGrants takes back what is left of grants whose time is over.
func (w *work) endGrants(a *held) {
	for _, g := range a.grants {
		if left := g.left(); g.until <= w.now.UnixNano() {
			g.ended = true
			a.state.Lend(limit.Part{}.Minus(left))
		}
	}
}

// decide answers the asks in their order, and lends to this node what is wished.
func (w *work) decide(asks []limit.Proposal) []limit.Verdict {
	verdicts := make([]limit.Verdict, len(asks))
	wished := map[*held]*limit.Proposal{}
	for i := range asks {
		p, v := &asks[i], &verdicts[i]
		a := w.accounts[clean(p.AccountID)]
		switch {
		case w.fenced:
			v.Refusal = &abi.Error{Kind: abi.Overloaded, Op: "postgres.Commit", RetryAfter: time.Second, Err: limit.ErrFenced,
				Msg: "this node has lost its place among the others; try again"}
			continue
		case a == nil:
			v.Refusal = &abi.Error{Kind: abi.Unauthenticated, Op: "postgres.Commit", Msg: "this account does not exist"}
			continue
		case p.RequestID != "":
			w.admit(a, p, v)
		}
		if p.Wish != (limit.Part{}) {
			wished[a] = p
		}
	}
	for a, p := range wished {
		w.lend(a, p)
	}
	for i := range asks {
		a := w.accounts[clean(asks[i].AccountID)]
		if a == nil {
			continue
		}
		verdicts[i].Counters, verdicts[i].Limits, verdicts[i].Now = a.state.Counters(), a.state.Limits(asks[i].Key, w.now), w.now
		if !w.fenced {
			verdicts[i].Grant = w.granted(a)
		}
	}
	return verdicts
}

// admit decides one ask. One that was admitted before gets what it got then.
func (w *work) admit(a *held, p *limit.Proposal, v *limit.Verdict) {
	id := clean(p.RequestID)
	if q := w.open[id]; q != nil && q.account == a.id && !q.ended {
		v.Reservation = limit.Reservation{Tokens: q.taken, Hold: q.held, Upper: q.Upper, Arrival: q.Arrival, Counters: q.Counters,
			KeyTokens: q.keyTaken, KeyHold: q.KeyHold}
		return
	}
	if w.known[id] != (requestRows{}) || w.open[id] != nil {
		v.Refusal = &abi.Error{Kind: abi.Internal, Op: "postgres.Commit", Msg: "internal error: request id is in use"}
		return
	}
	ask := p.Ask
	ask.RequestID = id
	a.touched[p.Key.ID] = true
	v.Reservation, v.Refusal = a.state.Reserve(ask, w.now)
	if v.Refusal != nil {
		v.Reservation = limit.Reservation{}
		v.Recalled = w.recall(a, v.Refusal)
		return
	}
	r := v.Reservation
	q := &request{Live: limit.Live{RequestID: id, Permit: true, Hold: r.Hold, Upper: r.Upper, Counters: r.Counters, Arrival: r.Arrival,
		KeyID: p.Key.ID, KeyHold: r.KeyHold}, account: a.id, held: r.Hold, free: p.Free,
		taken: r.Tokens, keyTaken: r.KeyTokens, fresh: true}
	w.open[id] = q
	if !p.Free {
		e := p.Hold
		e.Kind, e.AccountID, e.RequestID, e.Held, e.Counters = account.Hold, a.id, id, r.Hold, r.Counters
		w.holds = append(w.holds, e)
	}
}

// recall calls back what nodes have idle, where a request was refused for a lack of it. This node's own grant is
// called back as well: only that node knows what is idle of it, and on one node nothing of it would be lacking.
func (w *work) recall(a *held, refusal *abi.Error) (any bool) {
	if refusal.Kind != abi.RateLimited && refusal.Kind != abi.InsufficientBalance {
		return false
	}
	for _, g := range a.grants {
		if !g.ended && g.left() != (limit.Part{}) {
			g.changed, g.wanted, any = g.changed || !g.wanted, true, true
		}
	}
	return any
}

// lend gives this node more of an account, or makes a grant live longer.
func (w *work) lend(a *held, p *limit.Proposal) {
	var own *grant
	for _, g := range a.grants {
		if g.node == w.s.node && !g.ended {
			own = g
		}
	}
	left := limit.Part{}
	if own != nil {
		if left = own.left(); own.wanted || own.fence != w.fence { // a new one follows when it has ended
			return
		}
	}
	quote := limit.Part{Permits: 1, Tokens: p.Tokens(a.account.TokensPerMinute), Money: p.Upper}
	more, ok := a.state.Lendable(p.Wish, left, w.nodes, quote)
	if !ok {
		return
	}
	if own == nil {
		own = &grant{account: a.id, node: w.s.node, fence: w.fence, number: w.ids[len(w.ids)-1]}
		w.ids = w.ids[:len(w.ids)-1]
		a.grants = append(a.grants, own)
	}
	own.given, own.until, own.changed = own.given.Plus(more), w.now.Add(w.s.lease).UnixNano(), true
	a.state.Lend(more)
}

// granted is what this node has of an account without asking.
func (w *work) granted(a *held) *limit.Grant {
	for _, g := range a.grants {
		if g.node == w.s.node && g.fence == w.fence && !g.ended {
			l := &limit.Grant{Number: g.number, Part: g.given, TokensPerMinute: a.account.TokensPerMinute,
				Life: time.Duration(g.until - w.now.UnixNano()), Wanted: g.wanted}
			l.AnyPermits, l.AnyTokens, l.AnyMoney = a.state.Any()
			return l
		}
	}
	return nil
}
