package limit

import (
	"errors"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// ErrFenced is the cause of a refusal: the node that asked has lost its fence, so that others
// may count its grants and permits as free. It may not admit before it has registered again.
var ErrFenced = errors.New("the node has lost its fence")

// Batch is what a node wants of the store that many nodes share, in one transaction. Rows, releases
// and returns come first, so that asks find what they free. Then the asks are decided one by one,
// in their order, by the arithmetic of State and the database's clock: what one is refused, the next may have.
//
// A batch whose outcome is unknown may be given again: rows and asks are one by their request,
// releases are done once, returns say what they add up to.
type Batch struct {
	Rows     []account.Entry
	Asks     []Proposal
	Releases []Release
	Returns  []Return
}

// Proposal is a request that asks for admission.
type Proposal struct {
	// Ask with an empty RequestID takes nothing: it renews a grant, for requests like it.
	Ask
	AccountID string
	// Hold is the row to write when it is admitted; what was reserved is filled in. Zero for a Free request.
	Hold account.Entry
	// Wish is what a grant of the account should have left on this node, of all that the node
	// takes of the account; nothing when no grant is wanted.
	Wish Part
}

// Part is a part of an account's limits.
type Part struct {
	Permits int
	Tokens  int64
	Money   abi.Nano
}

// Plus adds two parts.
func (p Part) Plus(o Part) Part {
	return Part{p.Permits + o.Permits, p.Tokens + o.Tokens, p.Money + o.Money}
}

// Minus takes a part away.
func (p Part) Minus(o Part) Part {
	return Part{p.Permits - o.Permits, p.Tokens - o.Tokens, p.Money - o.Money}
}

// Atmost is p, but in nothing more than o, and in nothing below zero.
func (p Part) Atmost(o Part) Part {
	return Part{max(min(p.Permits, o.Permits), 0), max(min(p.Tokens, o.Tokens), 0), max(min(p.Money, o.Money), 0)}
}

// Release says that a request no longer runs, as Leave does: of a Free one, or of one whose
// settlement comes later. It is done once: of a request that has left it changes nothing.
type Release struct {
	AccountID, RequestID string
	Used                 int64 // of the token buckets
}

// Return gives parts of a grant back that the node will not use. Part is all that it ever gave
// back of the grant of that number, so that a return which is told twice is done once.
type Return struct {
	AccountID string
	Number    int64
	Part
}

// Verdict is the answer to a Proposal.
type Verdict struct {
	Reservation
	// Refusal says why not; nil for one that is admitted, whose hold is durable.
	Refusal *abi.Error
	// Recalled says of a refusal that nodes, this one maybe among them, have idle grants of what was lacking. They
	// were called back: it is worth asking again in RecallTime, before the client is told.
	Recalled bool
	// Counters are those of the account after the decision, in the whole cluster. They serve no
	// key's limit: Limits do.
	Counters Counters
	Limits   account.Limits
	// Now is what the store's clock said, by which Counters and Limits are; zero where there are none.
	Now time.Time
	// Grant is what this node has of the account, after the decision; nil when nothing.
	Grant *Grant
}

// By is the verdict by the clock of the node that asked, which says now: the store's need not agree with it.
func (v Verdict) By(now time.Time) Verdict {
	if v.Now.IsZero() {
		return v
	}
	behind := now.Sub(v.Now)
	v.Counters.bucket.At = v.Counters.bucket.At.Add(behind)
	v.Limits.RequestsReset, v.Limits.TokensReset = v.Limits.RequestsReset.Add(behind), v.Limits.TokensReset.Add(behind)
	v.Now = now
	return v
}

// RecallTime bounds how long a node takes to give idle parts of a grant back when another one needs them.
const RecallTime = 250 * time.Millisecond

// Grant is what a node may give of an account's limits without asking, for some seconds.
type Grant struct {
	// Number names it. A grant that is renewed in time keeps its number; one that
	// ended is followed by another, of which nothing was taken.
	Number int64
	// Part is all that the grant was ever given: it rises with each renewal. What the node took of it and what
	// it returned is to be subtracted.
	Part
	// A limit that the account does not have is not counted.
	AnyPermits, AnyTokens, AnyMoney bool
	// TokensPerMinute is the capacity of the account's bucket.
	TokensPerMinute int64
	// Life counts from the commit. A node that counts it from before it sent the batch, less a
	// second, never believes in a grant that has ended.
	Life time.Duration
	// Wanted says that another node needs what is idle of it.
	Wanted bool
}

// Covers says whether a grant of which taken is gone covers a request, and with what. It does
// so for plain requests only: with counters, or limits of a key, the database is asked.
func (g Grant) Covers(a Ask, taken Part) (r Reservation, ok bool) {
	if len(a.Takes) > 0 || len(a.Needs) > 0 || a.Key.TokensPerMinute > 0 || a.Key.Budget > 0 {
		return Reservation{}, false
	}
	left := g.Minus(taken)
	need := int64(1)
	if !a.Free {
		r.Hold, r.Upper = a.Upper, a.Upper
		if a.Key.ID != "" {
			r.KeyHold = a.Upper
		}
	}
	if !a.Free && !g.AnyTokens {
		r.Tokens = a.Tokens(g.TokensPerMinute)
		need = r.Tokens
	}
	r.GrantNumber, r.AnyPermits, r.AnyMoney = g.Number, g.AnyPermits, g.AnyMoney
	ok = (g.AnyPermits || left.Permits > 0) && (g.AnyTokens || left.Tokens >= need) && (g.AnyMoney || left.Money >= r.Hold)
	if !ok {
		return Reservation{}, false
	}
	return r, true
}

// Of is what a request with that reservation takes of its grant, for as long as that has its number: it is the same
// in the counts of the node and of the store, whatever limits the account has got or lost since.
func (r Reservation) Of() Part {
	p := Part{1, r.Tokens, r.Hold}
	if r.AnyPermits {
		p.Permits = 0
	}
	if r.AnyMoney {
		p.Money = 0
	}
	return p
}

// Granted is what rows say of the grant; nil without one.
func (r Reservation) Granted() *account.Granted {
	if r.GrantNumber == 0 {
		return nil
	}
	return &account.Granted{Number: r.GrantNumber, Tokens: r.Tokens, Held: r.Hold, AnyPermits: r.AnyPermits, AnyMoney: r.AnyMoney}
}
