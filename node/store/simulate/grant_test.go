package simulate

import (
	"fmt"
	"time"

	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// grantName is what the arithmetic knows a part of a grant by.
func grantName(node, i int) string { return fmt.Sprintf("grant/%d/%d", node, i) }

// live counts the nodes that may be lent to.
func (d *database) live() (n int) {
	for _, m := range d.members {
		if !m.fenced && m.fence > 0 {
			n++
		}
	}
	return n
}

// lend gives a node that is busy with an account a part of what is free, or renews what it has.
func (d *database) lend(c *customer, n *node, r *request) *lent {
	live, wish := d.live(), r.wish
	a := c.account
	if wish.Permits == 0 || a.Concurrency > 0 && a.Concurrency <= 2*live {
		return nil
	}
	s := d.state(c)
	sums := s.Sums()
	available := sums.Balance - sums.Held
	if !a.Unlimited && available < 4*r.upper {
		return nil
	}
	for _, other := range c.grants {
		if other.wanted && other.node == n.id {
			return nil // others wait for what it has
		}
	}
	g := c.grants[n.id]
	if g == nil {
		d.numbers++
		g = &lent{account: c.id, node: n.id, fence: d.members[n.id].fence, number: d.numbers}
	}
	if g.fence != d.members[n.id].fence {
		return nil // a grant of an earlier fence is waited for: nobody knows what its holder took
	}
	left := g.given.Minus(g.moved)
	share := func(free int64) int64 { return max(free, 0) / int64(live+1) }
	more := wish.Minus(left)
	if a.Concurrency > 0 {
		more.Permits = min(more.Permits, int(share(int64(a.Concurrency-sums.Permits))))
	}
	if a.TokensPerMinute > 0 {
		more.Tokens = min(more.Tokens, share(s.Kept().Bucket.Remaining()))
	}
	if !a.Unlimited {
		more.Money = min(more.Money, abi.Nano(share(int64(available))))
	}
	more = more.Atmost(more)
	if more.Permits+left.Permits == 0 {
		return nil
	}
	if !d.w.broken.bucketUndrawn {
		addTokens(c, -more.Tokens, d.clock())
	}
	g.given = g.given.Plus(more)
	g.until = d.w.now + grantLife
	c.grants[n.id] = g
	d.w.tally.grants++
	copied := *g
	return &copied
}

// purse is a grant as its node has it.
type purse struct {
	limit.Grant
	fence           int64
	taken, returned limit.Part
	until           time.Duration // by the node's clock
}

// take admits a request from the grant, or says that it does not cover it.
func (p *purse) take(r *request) bool {
	got, ok := p.Covers(r.ask(), p.taken)
	if ok {
		r.got = got
		p.taken = p.taken.Plus(got.Of())
	}
	return ok
}

// idle is what no request has taken.
func (p *purse) idle() limit.Part { return p.Part.Minus(p.taken).Atmost(p.Part) }
