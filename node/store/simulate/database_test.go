package simulate

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// epoch is what the database's clock says when a world begins.
var epoch = time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC)

// row is a ledger row on its way to the database.
type row struct {
	kind      account.EntryKind
	r         *request
	amount    abi.Nano // of a settlement
	used      int64    // of a settlement: the tokens that were spent
	corrects  bool     // the settlement says what was spent, so that the bucket is corrected
	grant     int64    // of a hold: the number of its grant
	crashed   bool     // the settlement was made after a crash
	neverHeld bool     // the settlement takes the place of a hold that was never sent
}

// giving is a part of a grant that goes back; it says all that was returned of this grant so far.
type giving struct {
	account int
	number  int64
	part    limit.Part
}

// batch is what a node sends at once.
type batch struct {
	node     *node
	fence    int64
	rows     []row
	asks     []*request
	releases []*request
	returns  []giving
}

// verdict is what the database says to an ask.
type verdict struct {
	got     limit.Reservation
	refusal *abi.Error
	grant   *lent // new or renewed, of the account on this node
}

// lent is a grant as the database has it.
type lent struct {
	account, node int
	fence, number int64
	given, moved  limit.Part // all that it was ever given, and what of that is a request's or was returned
	returned      limit.Part
	until         time.Duration // by the database's clock
	wanted        bool          // another node had to be refused
}

// open is a row of open_holds: what a request has.
type open struct {
	r           *request
	node        int
	fence       int64
	permit      bool
	hold, upper abi.Nano
	tokens      int64
	arrival     uint64
	checkpoint  abi.Nano // what it costs by then
	checked     bool
}

// book is what the ledger has of one request.
type book struct {
	held, settled bool
	holds         int
	settlements   []abi.Nano
	adjustments   abi.Nano
	crashed       bool // by a survivor or a restart
}

func (b *book) sum() (all abi.Nano) {
	for _, a := range b.settlements {
		all += a
	}
	return all + b.adjustments
}

// customer is an account in the database, and what is true of it.
type customer struct {
	id      int
	account account.Account
	price   abi.Nano // of a token
	busy    time.Duration
	initial abi.Nano

	balance abi.Nano
	bucket  limit.Bucket
	open    map[int]*open // by request
	grants  map[int]*lent // by node

	truth truth
}

// member is a row of nodes.
type member struct {
	fence  int64
	seen   time.Duration
	fenced bool
	lost   time.Duration           // when the fence before the present one ended
	shares int                     // transactions with asks of it that are open
	ends   map[int64]time.Duration // when each of its fences ended; for the checks only
}

// end ends the present fence.
func (m *member) end(now time.Duration) {
	if m.ends == nil {
		m.ends = map[int64]time.Duration{}
	}
	m.lost, m.ends[m.fence] = now, now
}

// database is a model of the transactions; each happens at the moment of its commit.
type database struct {
	w       *world
	up      bool
	starts  int               // connections to an earlier life of it are gone
	locks   map[int][]*locker // who has the rows of an account, and who waits for them
	members []member
	books   map[*request]*book
	numbers int64
}

var errFenced = errors.New("the node's fence is gone")

// clock is what the database says the time is.
func (d *database) clock() time.Time { return epoch.Add(d.w.now) }

func (d *database) book(r *request) *book {
	b := d.books[r]
	if b == nil {
		b = &book{}
		d.books[r] = b
	}
	return b
}

// register gives a node a new fence.
func (d *database) register(n int) int64 {
	m := &d.members[n]
	if !m.fenced {
		m.end(d.w.now)
	}
	m.fence++
	m.fenced, m.seen = false, d.w.now
	return m.fence
}

// renew keeps a fence; a node that may do so gives up those that were silent for so long as a grant lives.
func (d *database) renew(n int, fence int64, fences bool) error {
	m := &d.members[n]
	if m.fence != fence || m.fenced {
		return errFenced
	}
	m.seen = d.w.now
	if !fences {
		return nil
	}
	for i := range d.members {
		if o := &d.members[i]; !o.fenced && o.shares == 0 && o.seen < d.w.now-grantLife {
			o.fenced = true
			o.end(d.w.now)
			o.fence++
			d.w.tally.fenced++
		}
	}
	return nil
}

// fenceOf says whether a fence is the present one of a node, and if not since when.
func (d *database) fenceOf(n int, fence int64) (valid bool, lost time.Duration) {
	m := d.members[n]
	return m.fence == fence && !m.fenced, m.lost
}

// sweep ends grants that are over and frees the permits of requests whose node was given up.
func (d *database) sweep(c *customer) {
	for _, n := range slices.Sorted(maps.Keys(c.grants)) {
		if g := c.grants[n]; g.until <= d.w.now {
			d.giveBack(c, g.given.Minus(g.moved))
			delete(c.grants, n)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.open)) {
		o := c.open[id]
		wait := grantLife
		if d.w.broken.permitsEarly {
			wait = 0
		}
		if valid, lost := d.fenceOf(o.node, o.fence); !valid && o.permit && d.w.now >= lost+wait {
			o.permit = false
			if o.r.free {
				delete(c.open, id)
			}
		}
	}
}

// giveBack returns tokens to the bucket; permits and money are free when they are nobody's.
func (d *database) giveBack(c *customer, p limit.Part) {
	if d.w.broken.bucketUndrawn {
		return
	}
	addTokens(c, p.Tokens, d.clock())
}

// addTokens puts tokens into the bucket of an account, or takes them, by the real arithmetic.
func addTokens(c *customer, tokens int64, now time.Time) {
	s := limit.New(c.account, c.bucket)
	s.Leave(limit.Leave{Taken: tokens}, now)
	c.bucket = s.Kept().Bucket
}

// state is the real arithmetic over the locked rows of an account.
func (d *database) state(c *customer) *limit.State {
	s := limit.New(c.account, c.bucket)
	var live []limit.Live
	for _, id := range slices.Sorted(maps.Keys(c.open)) {
		o := c.open[id]
		live = append(live, limit.Live{RequestID: o.r.name, Permit: o.permit, Hold: o.hold, Upper: o.upper, Arrival: o.arrival})
	}
	for _, n := range slices.Sorted(maps.Keys(c.grants)) {
		g := c.grants[n]
		left := g.given.Minus(g.moved)
		if left.Money > 0 {
			live = append(live, limit.Live{RequestID: grantName(n, -1), Hold: left.Money, Upper: left.Money})
		}
		for i := range left.Permits {
			live = append(live, limit.Live{RequestID: grantName(n, i), Permit: true})
		}
	}
	s.Load(limit.Loaded{Account: c.account, Balance: c.balance, At: d.clock()}, live)
	return s
}

// save writes what the arithmetic changed.
func (d *database) save(c *customer, s *limit.State) {
	c.bucket = s.Kept().Bucket
	for _, o := range c.open {
		if l, ok := s.Open(o.r.name); ok {
			o.hold = l.Hold
		}
	}
}

// commit is one transaction: rows first, then the asks in order.
func (d *database) commit(b *batch) map[*request]verdict {
	valid, _ := d.fenceOf(b.node.id, b.fence)
	touched := map[int]bool{}
	touch := func(id int) *customer {
		c := d.w.customers[id]
		if !touched[id] {
			touched[id] = true
			d.sweep(c)
		}
		return c
	}
	for i := range b.rows {
		d.write(touch(b.rows[i].r.customer), b, &b.rows[i])
	}
	for _, r := range b.releases {
		delete(touch(r.customer).open, r.id)
	}
	for _, g := range b.returns {
		d.takeReturn(touch(g.account), b, g)
	}
	all := map[*request]verdict{}
	for _, r := range b.asks {
		if valid || d.w.broken.fenceIgnored {
			all[r] = d.ask(touch(r.customer), b, r)
		} else {
			all[r] = verdict{refusal: &abi.Error{Kind: abi.Overloaded, Err: limit.ErrFenced}}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(touched)) {
		d.w.customers[id].check(d)
	}
	return all
}

// takeReturn frees what a node does not need of a grant.
func (d *database) takeReturn(c *customer, b *batch, g giving) {
	l := c.grants[b.node.id]
	if l == nil || l.number != g.number {
		return
	}
	more := g.part.Minus(l.returned)
	if d.w.broken.returnTwice {
		more = g.part
	}
	l.returned = l.returned.Plus(more)
	l.moved = l.moved.Plus(more)
	d.giveBack(c, limit.Part{Tokens: more.Tokens})
	d.w.tally.returned++
}

// write adds a ledger row; no row is refused for a fence.
func (d *database) write(c *customer, b *batch, e *row) {
	k := d.book(e.r)
	switch e.kind {
	case account.Hold:
		if !k.held && !k.settled {
			d.hold(c, b, e)
		}
	case account.Checkpoint:
		if o := c.open[e.r.id]; o != nil {
			o.checkpoint, o.checked = -e.amount, true
		}
	case account.Settlement:
		if e.neverHeld && !k.held && !k.settled {
			d.hold(c, b, e)
		}
		d.settle(c, e, k)
	}
}

// hold opens a request that was admitted under a grant: its part moves from the grant.
func (d *database) hold(c *customer, b *batch, e *row) {
	k := d.book(e.r)
	k.held = true
	k.holds++
	r := e.r
	o := &open{r: r, node: b.node.id, fence: r.fence, permit: true, hold: r.got.Hold, upper: r.got.Upper,
		tokens: r.got.Tokens, arrival: r.got.Arrival}
	if e.grant != 0 {
		late := false
		p := r.got.Of()
		g := c.grants[b.node.id]
		if g != nil && g.number == e.grant {
			g.moved = g.moved.Plus(p)
			if d.w.broken.permitInGrant {
				g.moved.Permits--
				o.permit = false
			}
			if d.w.broken.holdUncounted {
				o.hold, o.upper = 0, 0
			}
		} else {
			r.lateAt = d.w.now
			d.w.tally.late++
			late = true
			addTokens(c, -o.tokens, d.clock())
		}
		c.truth.arrived(d.w, r, late)
	}
	c.open[r.id] = o
}

// settle charges a request, once.
func (d *database) settle(c *customer, e *row, k *book) {
	if k.settled && !d.w.broken.settledTwice {
		if k.crashed && !e.crashed && !d.w.broken.lateIsNote { // the client was told so much
			diff := e.amount - k.sum()
			k.adjustments += diff
			c.balance += diff
			c.truth.lateMoney += max(-diff, 0)
			if diff != 0 {
				d.w.tally.adjusted++
			}
		}
		return
	}
	k.settled, k.crashed = true, e.crashed
	k.settlements = append(k.settlements, e.amount)
	o := c.open[e.r.id]
	s := d.state(c)
	s.Settle(limit.Settle{RequestID: e.r.name, Amount: e.amount, Seq: 1})
	leave := limit.Leave{RequestID: e.r.name}
	if e.corrects && o != nil {
		leave.Taken, leave.Used = o.tokens, e.used
		c.truth.corrected(o.tokens - e.used)
	}
	s.Leave(leave, d.clock())
	c.balance = s.Sums().Balance
	delete(c.open, e.r.id)
	d.save(c, s)
}

// ask decides one request as one node would, and lends the node what it may need next.
func (d *database) ask(c *customer, b *batch, r *request) verdict {
	k := d.book(r)
	if o := c.open[r.id]; o != nil { // its verdict was lost
		return verdict{got: limit.Reservation{Tokens: o.tokens, Hold: o.hold, Upper: o.upper, Arrival: o.arrival}}
	}
	if k.settled {
		return verdict{refusal: &abi.Error{Kind: abi.Canceled}}
	}
	s := d.state(c)
	got, refusal := s.Reserve(r.ask(), d.clock())
	if refusal != nil {
		d.save(c, s)
		for _, n := range slices.Sorted(maps.Keys(c.grants)) {
			if n != b.node.id {
				c.grants[n].wanted = true
			}
		}
		return verdict{refusal: refusal}
	}
	if !r.free {
		k.held = true
		k.holds++
	}
	c.open[r.id] = &open{r: r, node: b.node.id, fence: b.fence, permit: true, hold: got.Hold, upper: got.Upper, tokens: got.Tokens,
		arrival: got.Arrival}
	d.save(c, s)
	return verdict{got: got, grant: d.lend(c, b.node, r)}
}

// lostHolds are those that a survivor settles: of nodes that are gone for so long.
func (d *database) lostHolds(most int) (all []*open) {
	for _, c := range d.w.customers {
		for _, id := range slices.Sorted(maps.Keys(c.open)) {
			o := c.open[id]
			if valid, lost := d.fenceOf(o.node, o.fence); !valid && d.w.now >= lost+settleAfter && len(all) < most {
				all = append(all, o)
			}
		}
	}
	return all
}

// ownHolds are those that an earlier life of a node left.
func (d *database) ownHolds(n int) (all []*open) {
	for _, c := range d.w.customers {
		for _, o := range c.open {
			if o.node == n {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b *open) int { return cmp.Compare(a.r.id, b.r.id) })
	return all
}

// crashedRow settles an open request at its last checkpoint.
func (d *database) crashedRow(o *open) row {
	cost := o.checkpoint
	if d.w.broken.survivorPaysUp {
		cost = o.hold
	}
	return row{kind: account.Settlement, r: o.r, amount: -cost, crashed: true}
}

// accounts are those whose rows a batch locks.
func (b *batch) accounts() (all []int) {
	for i := range b.rows {
		all = append(all, b.rows[i].r.customer)
	}
	for _, r := range slices.Concat(b.asks, b.releases) {
		all = append(all, r.customer)
	}
	for _, g := range b.returns {
		all = append(all, g.account)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// locker is a transaction that takes the rows of its accounts one after the other, in their order.
type locker struct {
	b        *batch
	accounts []int
	has      int // of accounts
	starts   int
	locked   func() // called when it has all
	lost     func() // or when the server ended before
}

// lock takes rows, and waits behind those that came before.
func (d *database) lock(b *batch, locked func(*locker), lost func()) {
	l := &locker{b: b, accounts: b.accounts(), starts: d.starts, lost: lost}
	l.locked = func() { locked(l) }
	if len(b.asks) > 0 {
		d.members[b.node.id].shares++
	}
	if len(l.accounts) > 0 {
		d.locks[l.accounts[0]] = append(d.locks[l.accounts[0]], l)
	}
	d.advance(l)
}

// advance takes what is free.
func (d *database) advance(l *locker) {
	for l.has < len(l.accounts) && d.locks[l.accounts[l.has]][0] == l {
		if l.has++; l.has < len(l.accounts) {
			next := l.accounts[l.has]
			d.locks[next] = append(d.locks[next], l)
		}
	}
	if l.has == len(l.accounts) {
		l.locked()
	}
}

// unlock ends a transaction.
func (d *database) unlock(l *locker) {
	if l.starts != d.starts {
		return // the server forgot it
	}
	if len(l.b.asks) > 0 {
		d.members[l.b.node.id].shares--
	}
	for _, id := range l.accounts {
		d.locks[id] = d.locks[id][1:]
		if len(d.locks[id]) > 0 {
			next := d.locks[id][0]
			d.w.after(0, func() {
				if next.starts == d.starts {
					d.advance(next)
				}
			})
		}
	}
}

// stop ends the server at once: transactions that are open are gone.
func (d *database) stop() {
	d.up = false
	d.starts++
	for _, id := range slices.Sorted(maps.Keys(d.locks)) {
		for i, l := range d.locks[id] {
			if i > 0 { // it waits here, and nowhere else
				l.lost()
			}
		}
	}
	clear(d.locks)
	for i := range d.members {
		d.members[i].shares = 0
	}
}
