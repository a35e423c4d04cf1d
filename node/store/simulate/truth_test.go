package simulate

import (
	"time"

	"corenode/wasm/abi"
)

// truth is what is so of an account, as nobody in the world can know it at once.
type truth struct {
	running   map[*request]bool
	pending   map[*request]bool // admitted under a grant, and the database has no hold yet
	taken     int64             // tokens of all that was admitted, less corrections
	lateTaken int64             // of those whose hold came after their grant was over
	lateMoney abi.Nano
	upperMax  abi.Nano
}

// disturbedFor is how long after a fault its node may still be about what the fault held up.
const disturbedFor = slowAfter + time.Second

// disturbed says whether a fault touched a node since a time.
func (n *node) disturbed(since time.Duration) bool {
	return n.fault > 0 || n.call != nil && n.call.given || n.calmAt+disturbedFor >= since && n.calmAt > 0
}

// covered says whether the database counts a running request, itself or in a grant.
func (w *world) covered(c *customer, r *request) bool {
	if o := c.open[r.id]; o != nil && o.permit {
		return true
	}
	g := c.grants[r.node.id]
	return r.grant != 0 && g != nil && g.number == r.grant && g.until > w.now && c.truth.pending[r] || r.grant != 0 && r.free
}

// excused says whether a request may run although the database gave its permit to others: its node was
// given up for the time of a grant, or a fault kept its hold from being there before its grant was over.
func (w *world) excused(c *customer, r *request) bool {
	if w.covered(c, r) {
		return false
	}
	if lost, ended := w.db.members[r.node.id].ends[r.fence]; ended && w.now >= lost+grantLife {
		return r.began < lost+grantLife
	}
	return r.grant != 0 && (r.lateAt != 0 || c.truth.pending[r]) && r.node.disturbed(r.began)
}

// admit counts a request from the moment on in which its node lets it run.
func (t *truth) admit(w *world, r *request) {
	c := w.customers[r.customer]
	t.running[r] = true
	t.upperMax = max(t.upperMax, r.upper)
	if r.grant != 0 && !r.free {
		t.pending[r] = true
	}
	if lost, ended := w.db.members[r.node.id].ends[r.fence]; ended && w.now >= lost+grantLife {
		w.find("node %d admits %s under a fence that ended at %v", r.node.id, r.name, lost)
	}
	beyond := 0
	if limit := c.account.Concurrency; limit > 0 && len(t.running) > limit {
		counted := 0
		for r := range t.running {
			if !w.excused(c, r) {
				counted++
			}
		}
		beyond = len(t.running) - limit
		w.tally.overshoot = max(w.tally.overshoot, beyond)
		if counted > limit {
			w.find("account %d runs %d requests at once, %d of them excused; its limit is %d", c.id, len(t.running), len(t.running)-counted, limit)
		}
	}
	t.taken += r.got.Tokens
	capacity := c.account.TokensPerMinute
	if capacity == 0 || r.free {
		return
	}
	allowed := capacity + int64(w.now)*capacity/int64(time.Minute) + t.lateTaken
	for r := range t.pending {
		if w.excused(c, r) || !w.covered(c, r) && r.node.disturbed(r.began) {
			allowed += r.got.Tokens
		}
	}
	if t.taken > allowed {
		w.find("account %d was given %d tokens, %d are there", c.id, t.taken, allowed)
	}
}

func (t *truth) leave(r *request)       { delete(t.running, r) }
func (t *truth) corrected(tokens int64) { t.taken -= tokens }

// arrived says that the database has the hold of a request under a grant; late, that its grant was over.
func (t *truth) arrived(w *world, r *request, late bool) {
	delete(t.pending, r)
	if !late {
		return
	}
	t.lateTaken += r.got.Tokens
	t.lateMoney += r.got.Hold
	if !r.node.disturbed(r.began) {
		w.find("the hold of %s, admitted at %v under a grant, came when that was over, and no fault touched node %d", r.name, r.began, r.node.id)
	}
}

// check holds the rows of an account against each other.
func (c *customer) check(d *database) {
	var held, lent abi.Nano
	permits := 0
	for _, o := range c.open {
		held += max(o.hold, o.r.got.Hold) // what its node believes that it has
		if o.permit {
			permits++
		}
	}
	for _, g := range c.grants {
		left := g.given.Minus(g.moved)
		lent += left.Money
		permits += left.Permits
		if left.Permits < 0 && c.account.Concurrency > 0 || left.Tokens < 0 && c.account.TokensPerMinute > 0 ||
			left.Money < 0 && !c.account.Unlimited {
			d.w.find("of a grant of account %d more was taken than it was given: %+v is left", c.id, left)
		}
	}
	if c.balance-held-lent >= 0 {
		c.truth.lateMoney = 0 // what came late is paid
	}
	if slack := c.truth.upperMax + c.truth.lateMoney; !c.account.Unlimited && c.balance-held-lent < -slack {
		d.w.find("account %d has %d, of that %d are held and %d lent; %d may be overdrawn", c.id, c.balance, held, lent, slack)
	}
	if !c.account.Unlimited && c.balance < -c.truth.upperMax-c.truth.lateMoney {
		d.w.find("account %d owes %d", c.id, -c.balance)
	}
}

// rest holds what is left against what was told, when nothing runs any more.
func (w *world) rest() {
	sums := map[int]abi.Nano{}
	for _, r := range w.requests {
		b := w.db.books[r]
		if b == nil {
			b = &book{}
		}
		sums[r.customer] += b.sum()
		switch {
		case b.holds > 1 || len(b.settlements) > 1:
			w.find("request %s has %d holds and %d settlements", r.name, b.holds, len(b.settlements))
		case r.told && -b.sum() != r.charge:
			w.find("the client of %s was told %d, the ledger says %d", r.name, r.charge, -b.sum())
		case b.held && !b.settled:
			w.find("request %s has a hold and no settlement", r.name)
		case -b.sum() > abi.Nano(r.usedAfter(r.usedFor))*w.customers[r.customer].price && !r.free:
			w.find("request %s pays %d, more than it used", r.name, -b.sum())
		case r.running:
			w.find("request %s still runs", r.name)
		}
	}
	for _, c := range w.customers {
		w.db.sweep(c)
		s := w.db.state(c)
		if sum := s.Sums(); sum.Permits != 0 || sum.Held != 0 || len(c.grants) > 0 || len(c.open) > 0 {
			w.find("account %d has %d permits out, %d held, %d grants, %d open requests", c.id, sum.Permits, sum.Held, len(c.grants), len(c.open))
		}
		if c.balance != c.initial+sums[c.id] {
			w.find("account %d has %d, its rows say %d", c.id, c.balance, c.initial+sums[c.id])
		}
	}
	for _, n := range w.nodes {
		if len(n.journal) > 0 || len(n.rows)+len(n.releases) > 0 {
			w.find("node %d still has %d rows in its journal and %d in memory", n.id, len(n.journal), len(n.rows))
		}
	}
}
