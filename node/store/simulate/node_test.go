package simulate

import (
	"errors"
	"maps"
	"slices"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/cluster"
	"corenode/wasm/abi"
)

// node is one process after the other on one data folder.
type node struct {
	w      *world
	id     int
	life   int // of processes; what an earlier one planned does not happen
	up     bool
	paused bool
	frozen []func() // what a pause held up
	// pauseNext is how long it pauses when the next ask waits to be sent, pauseGrant when the next grant is on
	// its way; 0: it does not.
	pauseNext, pauseGrant time.Duration

	rate   float64       // of its monotonic clock against true time
	offset time.Duration // of its wall clock

	link   linkState
	breaks int           // how often its connections broke
	fault  int           // faults that touch it now
	calmAt time.Duration // when the last one ended

	journal []row // survives the process

	fence     int64 // 0: it has none
	state     *cluster.Life
	purses    map[int]*purse
	running   map[int]*request
	recent    map[int][]time.Duration // admissions of an account
	rows      []row
	asks      []*request
	releases  []*request
	returns   []giving
	call      *call // the one batch that is on its way
	replayAt  time.Duration
	recovered bool // the rows and holds of the process before are settled
}

// linkState is what becomes of what a node and its database send each other.
type linkState int

const (
	linkWell linkState = iota
	linkCut            // both sides see that the connection broke
	linkLost           // what is sent arrives nowhere, and nobody is told
)

// call is a batch on its way.
type call struct {
	b       *batch
	sent    time.Duration // by the node's clock
	wall    time.Duration
	replays int  // rows of the journal in it
	given   bool // the node waited long enough: the rows are in the journal
	over    bool
	link    int // the life of the connection, of the process and of the server that it began in
	life    int
	starts  int
}

var errLink = errors.New("the connection broke")

// mono is the node's monotonic clock, wall its wall clock.
func (n *node) mono() time.Duration { return time.Duration(float64(n.w.now) * n.rate) }
func (n *node) wall() time.Duration { return n.mono() + n.offset }

// do has the process do something later, if it lives and when it is not paused.
func (n *node) do(d time.Duration, f func()) {
	life := n.life
	n.w.after(d, func() {
		run := func() {
			if n.life == life && n.up {
				f()
			}
		}
		if n.paused && n.life == life {
			n.frozen = append(n.frozen, run)
			return
		}
		run()
	})
}

// every does something again and again.
func (n *node) every(d time.Duration, f func()) {
	n.do(d, func() {
		f()
		n.every(d, f)
	})
}

// start begins a process.
func (n *node) start() {
	n.life++
	n.up, n.fence, n.recovered, n.call = true, 0, false, nil
	n.state = &cluster.Life{Times: cluster.TimesOf(grantLife)}
	n.state.Serves()
	n.purses, n.running, n.recent = map[int]*purse{}, map[int]*request{}, map[int][]time.Duration{}
	n.rows, n.asks, n.releases, n.returns = nil, nil, nil, nil
	if n.w.broken.journalLost {
		n.journal = nil
	}
	n.w.tally.restarts++
	n.renewal()
	n.every(returnEvery, n.giveIdle)
	n.every(settleAfter/10, n.survive)
	n.every(200*time.Millisecond, n.flush)
}

// die ends the process; what it had in memory is gone.
func (n *node) die() {
	for _, id := range slices.Sorted(maps.Keys(n.running)) {
		r := n.running[id]
		r.stop(n.w)
	}
	n.life++
	n.up, n.paused, n.frozen, n.pauseNext, n.pauseGrant = false, false, nil, 0, 0
}

// moment is what the monotonic clock says, as the real code has it.
func (n *node) moment(mono time.Duration) time.Time { return epoch.Add(mono) }

// renewal registers or renews, each second.
func (n *node) renewal() {
	n.do(renewEvery, n.renewal)
	if n.link != linkWell || !n.w.db.up {
		return
	}
	sent, link, starts, life := n.mono(), n.breaks, n.w.db.starts, n.life
	fence, registers, fences := n.fence, n.state.Registers(), n.state.Fences(n.moment(sent))
	n.w.after(n.delay(), func() { // in the database
		if n.w.db.starts != starts || !n.w.db.up || registers && n.w.db.members[n.id].shares > 0 {
			return
		}
		var err error
		if registers {
			fence = n.w.db.register(n.id)
		} else {
			err = n.w.db.renew(n.id, fence, fences)
		}
		if n.breaks == link && n.link == linkWell && n.life == life {
			n.do(n.delay(), func() { n.known(fence, registers, sent, err) })
		}
	})
}

// known is the answer to a renewal.
func (n *node) known(fence int64, registered bool, sent time.Duration, err error) {
	switch {
	case err != nil:
		n.state.Lost() // it registers at once, with a new fence
		n.fence = 0
		n.purses = map[int]*purse{}
		n.w.tally.rejoined++
		return
	case registered:
		n.fence = fence
		n.state.Registered(n.moment(sent))
		n.recover()
	default:
		n.state.Renewed(n.moment(sent), n.moment(n.mono()))
	}
	n.state.Followed(n.state.Gaps())
}

// recover settles what the process before left: first its journal, then its open holds.
func (n *node) recover() {
	if n.recovered || len(n.journal) > 0 {
		return
	}
	n.recovered = true
	for _, o := range n.w.db.ownHolds(n.id) {
		if o.r.life != n.life {
			n.rows = append(n.rows, n.w.db.crashedRow(o))
		}
	}
}

// admits says whether the node may admit: it has a fence and was heard lately.
func (n *node) admits() bool { return n.recovered && n.state.Admits(n.moment(n.mono())) }

// receive is a request that arrives.
func (n *node) receive(r *request) {
	c := n.w.customers[r.customer]
	if !n.admits() {
		n.w.tally.unavailable++
		return
	}
	r.fence, r.life = n.fence, n.life
	r.wish = n.wish(c)
	p := n.purses[c.id]
	if p != nil && !n.over(p) && p.take(r) {
		r.grant = p.Number
		n.w.tally.underGrant++
		n.begin(r)
		if !r.free {
			n.rows = append(n.rows, row{kind: account.Hold, r: r, grant: p.Number})
			n.flush()
		}
		return
	}
	if len(n.journal) > 0 || n.call != nil && n.call.given {
		n.w.tally.unavailable++
		return
	}
	r.asked = true
	n.asks = append(n.asks, r)
	if long := n.pauseNext; long > 0 {
		n.pauseNext = 0
		n.w.pause(n, long)
		n.do(0, n.flush)
		return
	}
	n.flush()
}

// over says whether a grant is over on the node.
func (n *node) over(p *purse) bool {
	if n.w.broken.expiryByWall {
		return n.wall() >= p.until
	}
	return n.mono() >= p.until
}

// wish is what the node needs of an account for two seconds, from what it saw in the last one.
func (n *node) wish(c *customer) limit.Part {
	seen := append(n.recent[c.id], n.mono())
	for len(seen) > 0 && seen[0] < n.mono()-time.Second {
		seen = seen[1:]
	}
	n.recent[c.id] = seen
	if len(seen) < 2 {
		return limit.Part{}
	}
	k := int64(2 * len(seen))
	return limit.Part{Permits: int(k), Tokens: k * 1200, Money: abi.Nano(k) * 1200 * c.price}
}

// begin lets an admitted request run.
func (n *node) begin(r *request) {
	r.running, r.began = true, n.w.now
	n.running[r.id] = r
	n.w.tally.admitted++
	n.w.customers[r.customer].truth.admit(n.w, r)
	n.do(r.runs, func() { n.finish(r) })
	n.checkpoint(r)
}

// checkpoint notes what a request costs by now, each few seconds.
func (n *node) checkpoint(r *request) {
	n.do(3*time.Second, func() {
		if !r.running {
			return
		}
		cost := abi.Nano(r.usedAfter(n.w.now-r.began)) * n.w.customers[r.customer].price
		n.rows = append(n.rows, row{kind: account.Checkpoint, r: r, amount: -cost})
		n.checkpoint(r)
	})
}

// stop ends what a request really does.
func (r *request) stop(w *world) {
	if !r.running {
		return
	}
	r.running, r.ended = false, true
	r.usedFor, r.finished = w.now-r.began, w.now
	w.customers[r.customer].truth.leave(r)
	delete(r.node.running, r.id)
}

// finish settles a request that ended.
func (n *node) finish(r *request) {
	if !r.running {
		return
	}
	r.stop(n.w)
	c := n.w.customers[r.customer]
	if r.free {
		n.w.tally.free++
		if r.grant == 0 {
			n.releases = append(n.releases, r)
		} else if p := n.purses[c.id]; p != nil && p.Number == r.grant {
			p.taken.Permits--
		}
		return
	}
	used := r.usedAfter(r.usedFor)
	r.charge = abi.Nano(used) * c.price
	settlement := row{kind: account.Settlement, r: r, amount: -r.charge, used: used, corrects: true}
	if i := slices.IndexFunc(n.rows, func(e row) bool { return e.kind == account.Hold && e.r == r }); i >= 0 {
		settlement.neverHeld, settlement.grant = true, n.rows[i].grant
		n.rows = slices.Delete(n.rows, i, i+1)
	}
	n.rows = append(n.rows, settlement)
	if n.w.broken.toldEarly {
		n.tell(r)
	}
	n.flush()
}

// tell says to a client that is still there what its request cost.
func (n *node) tell(r *request) {
	if !r.gone && !r.told {
		r.told = true
		n.w.tally.told++
	}
}

// leave is a client that goes away.
func (n *node) leave(r *request) {
	if r.gone || r.told || r.ended {
		return
	}
	r.gone = true
	n.w.tally.left++
	if r.running {
		n.finish(r)
	}
}

// giveIdle returns what others wait for.
func (n *node) giveIdle() {
	if n.link != linkWell || !n.w.db.up || n.paused || n.call != nil || len(n.returns) > 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(n.purses)) {
		p := n.purses[id]
		g := n.w.customers[id].grants[n.id]
		if g == nil || !g.wanted || g.number != p.Number {
			continue
		}
		idle := p.idle()
		if idle == (limit.Part{}) {
			continue
		}
		p.taken, p.returned = p.taken.Plus(idle), p.returned.Plus(idle)
		n.returns = append(n.returns, giving{id, p.Number, p.returned})
	}
	n.flush()
}

// survive settles what nodes that are gone left open.
func (n *node) survive() {
	if n.fence == 0 || n.link != linkWell || !n.w.db.up || len(n.journal) > 0 {
		return
	}
	for _, o := range n.w.db.lostHolds(300) {
		n.rows = append(n.rows, n.w.db.crashedRow(o))
		n.w.tally.survivors++
	}
	n.flush()
}

// cancel gives back what an ask may have taken whose verdict nobody waits for.
func (n *node) cancel(r *request) {
	r.ended = true
	if n.w.broken.cancelLost {
		return
	}
	n.w.tally.canceled++
	if r.free {
		n.releases = append(n.releases, r)
	} else {
		n.rows = append(n.rows, row{kind: account.Settlement, r: r, corrects: true})
	}
}

// answer is the verdict of the database.
func (n *node) answer(k *call, r *request, v verdict) {
	r.asked = false
	switch {
	case v.refusal != nil:
		n.w.tally.refused++
		r.ended = true
	case r.gone, n.mono() >= k.sent+grantLife-grantMargin && !n.w.broken.verdictOld:
		n.cancel(r)
	default:
		r.got, r.held, r.fence = v.got, true, k.b.fence
		n.begin(r)
	}
	if v.grant != nil && v.grant.fence == n.fence {
		n.adopt(k, v.grant)
	}
}

// adopt notes a new or renewed grant.
func (n *node) adopt(k *call, g *lent) {
	c := n.w.customers[g.account]
	p := n.purses[g.account] // also one that is over: the database may have renewed it, and what was taken stays so
	if p == nil || p.Number != g.number || n.w.broken.grantForgotten && n.over(p) {
		p = &purse{fence: g.fence}
		n.purses[g.account] = p
	}
	if n.w.broken.grantRefilled {
		p.taken = limit.Part{}
		g.given = g.given.Minus(g.moved)
	}
	p.Grant = limit.Grant{Number: g.number, Part: g.given, AnyPermits: c.account.Concurrency == 0,
		AnyTokens: c.account.TokensPerMinute == 0, AnyMoney: c.account.Unlimited, TokensPerMinute: c.account.TokensPerMinute}
	from, margin := k.sent, grantMargin
	if n.w.broken.expiryByWall {
		from = k.wall
	}
	if n.w.broken.expiryByReply {
		from = n.mono()
	}
	if n.w.broken.marginDropped {
		margin = 0
	}
	p.until = from + grantLife - margin
}

// durable says that rows are in the database or in the journal.
func (n *node) durable(rows []row) {
	for _, e := range rows {
		switch e.kind {
		case account.Hold:
			e.r.held = true
		case account.Settlement:
			if e.r.life == n.life && e.r.node == n && !e.crashed && e.r.running == false && e.corrects {
				n.tell(e.r)
			}
		}
	}
}
