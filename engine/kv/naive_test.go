package kv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naive is a pool as the comments say it is, with maps and searches in place of
// trees, lists and counters. It says what hits, what is evicted and which pins stand.
type naive struct {
	c       Config
	nodes   map[string]*naiveNode // by namespace and all tokens up to the page's end
	private int
	running int // state slots of tables
	pins    []*naivePin
	clock   int
}

type naiveNode struct {
	refs, pins       int
	idle             int // when it became idle
	snapshot         bool
	used             int
	snapRefs, guards int
	// paid and snapshotPaid say that somebody paid who came by.
	paid, snapshotPaid bool
}

type naivePin struct {
	handle Handle
	space  string
	path   []string
	guards []string
}

// naiveTable is a table of both.
type naiveTable struct {
	Table
	space   string
	tokens  []int32
	pages   int
	indexed int
	start   string
	matched int
	unpaid  bool
}

func naiveKey(space string, tokens []int32) string { return fmt.Sprint(space, tokens) }

func (m *naive) tick() int { m.clock++; return m.clock }

func (m *naive) free() int { return m.c.Pages - len(m.nodes) - m.private }

func (m *naive) snapshots() (n int) {
	for _, x := range m.nodes {
		if x.snapshot {
			n++
		}
	}
	return n
}

func (m *naive) freeStates() int { return m.c.States - m.running - m.snapshots() }

// children says whether a longer path goes through a node.
func (m *naive) children(key string) bool {
	prefix := strings.TrimSuffix(key, "]") + " "
	for k := range m.nodes {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

// sweep removes what can never be hit.
func (m *naive) sweep() {
	for again := m.c.States > 0; again; {
		again = false
		for k, x := range m.nodes {
			if x.refs == 0 && x.pins == 0 && !x.snapshot && !m.children(k) {
				delete(m.nodes, k)
				again = true
			}
		}
	}
}

// oldest is the node with the lowest mark of those that are eligible.
func (m *naive) oldest(mark func(x *naiveNode) (at int, eligible bool)) (key string) {
	least := 0
	for k, x := range m.nodes {
		if at, ok := mark(x); ok && (key == "" || at < least) {
			key, least = k, at
		}
	}
	return key
}

func (m *naive) unpin(p *naivePin) {
	m.pins = slices.DeleteFunc(m.pins, func(o *naivePin) bool { return o == p })
	for _, g := range p.guards {
		m.nodes[g].guards--
	}
	for _, k := range slices.Backward(p.path) {
		x := m.nodes[k]
		if x.pins--; x.pins == 0 && x.refs == 0 {
			x.idle = m.tick()
		}
	}
	m.sweep()
}

func (m *naive) breakPin(useful func(p *naivePin) bool) bool {
	at := slices.IndexFunc(m.pins, useful)
	if at >= 0 {
		m.unpin(m.pins[at])
	}
	return at >= 0
}

// room frees pages until n are free.
func (m *naive) room(n int) {
	for m.free() < n {
		k := m.oldest(func(x *naiveNode) (int, bool) { return x.idle, x.refs == 0 && x.pins == 0 })
		if k == "" {
			if !m.breakPin(func(p *naivePin) bool { return m.nodes[p.path[len(p.path)-1]].refs == 0 }) {
				panic("the oracle has no page")
			}
			continue
		}
		delete(m.nodes, k)
		m.sweep()
	}
}

func (m *naive) freeSnapshot() bool {
	for {
		k := m.oldest(func(x *naiveNode) (int, bool) { return x.used, x.snapshot && x.snapRefs+x.guards == 0 })
		if k != "" {
			m.nodes[k].snapshot = false
			m.sweep()
			return true
		}
		if !m.breakPin(func(p *naivePin) bool {
			return slices.ContainsFunc(p.guards, func(g string) bool { return m.nodes[g].snapRefs == 0 })
		}) {
			return false
		}
	}
}

func (m *naive) open(t *naiveTable) (cached, branch int) {
	size, matched := m.c.PageTokens, 0
	for end := size; end < len(t.tokens); end += size {
		x := m.nodes[naiveKey(t.space, t.tokens[:end])]
		if x == nil || !x.paid {
			break
		}
		branch = end
		if m.c.States == 0 || x.snapshot && x.snapshotPaid {
			matched = end
		}
	}
	for end := size; end <= matched; end += size {
		m.nodes[naiveKey(t.space, t.tokens[:end])].refs++
	}
	t.pages, t.indexed, t.matched = matched/size, matched/size, matched/size
	if matched > 0 && m.c.States > 0 {
		t.start = naiveKey(t.space, t.tokens[:matched])
		m.nodes[t.start].snapRefs++
	}
	if branch == matched || m.c.States == 0 {
		branch = 0
	}
	return matched, branch
}

func (m *naive) unrefSnapshot(t *naiveTable) {
	if t.start != "" {
		m.nodes[t.start].snapRefs--
		m.nodes[t.start].used = m.tick()
		t.start = ""
	}
}

func (m *naive) takeState(t *naiveTable) bool {
	if m.freeStates() == 0 && !m.freeSnapshot() {
		return false
	}
	m.running++
	m.unrefSnapshot(t)
	return true
}

func (m *naive) grow(t *naiveTable) bool {
	need := (len(t.tokens)+m.c.PageTokens-1)/m.c.PageTokens - t.pages
	owned := m.private
	for _, x := range m.nodes {
		owned += min(1, x.refs)
	}
	if need > m.c.Pages-owned {
		return false
	}
	for range need {
		m.room(1)
		m.private++
		t.pages++
	}
	return true
}

func (m *naive) index(t *naiveTable, n int) {
	for ; t.indexed < n/m.c.PageTokens; t.indexed++ {
		k := naiveKey(t.space, t.tokens[:(t.indexed+1)*m.c.PageTokens])
		if m.nodes[k] == nil {
			m.nodes[k] = &naiveNode{}
		}
		m.nodes[k].paid = m.nodes[k].paid || !t.unpaid
		m.nodes[k].refs++
		m.private--
	}
}

func (m *naive) snapshot(t *naiveTable, n int) bool {
	m.index(t, n)
	x := m.nodes[naiveKey(t.space, t.tokens[:n])]
	if x.snapshot {
		x.used, x.snapshotPaid = m.tick(), x.snapshotPaid || !t.unpaid
		return false
	}
	if (m.snapshots() >= m.c.SnapshotsMax || m.freeStates() == 0) && !m.freeSnapshot() {
		return false
	}
	x.snapshot, x.used, x.snapshotPaid = true, m.tick(), !t.unpaid
	return true
}

func (m *naive) pay(t *naiveTable) {
	for i := t.matched + 1; t.unpaid && i <= t.indexed; i++ {
		x := m.nodes[naiveKey(t.space, t.tokens[:i*m.c.PageTokens])]
		x.paid, x.snapshotPaid = true, true
	}
	t.unpaid = false
}

func (m *naive) close(t *naiveTable, state bool) {
	m.unrefSnapshot(t)
	if state {
		m.running--
	}
	m.private -= t.pages - t.indexed
	for i := t.indexed; i > 0; i-- {
		k := naiveKey(t.space, t.tokens[:i*m.c.PageTokens])
		x := m.nodes[k]
		if x.refs--; x.refs > 0 {
			continue
		}
		x.snapshot = x.snapshot && x.snapshotPaid
		switch {
		case !x.paid:
			delete(m.nodes, k)
		case x.pins == 0:
			x.idle = m.tick()
		}
	}
	m.sweep()
}

// kept counts the distinct pages and snapshots that pins keep, of one namespace or, for "", of all.
func (m *naive) kept(space string) (pages, guards int) {
	path, guard := map[string]bool{}, map[string]bool{}
	for _, p := range m.pins {
		for _, k := range p.path {
			path[k] = path[k] || space == "" || p.space == space
		}
		for _, k := range p.guards {
			guard[k] = guard[k] || space == "" || p.space == space
		}
	}
	count := func(of map[string]bool) (n int) {
		for _, counts := range of {
			if counts {
				n++
			}
		}
		return n
	}
	return count(path), count(guard)
}

func (m *naive) pin(t *naiveTable, keep []int, bytesMax int64) *naivePin {
	size, pagesMax, guardsAll := m.c.PageTokens, max(1, m.c.Pages/2), max(1, m.c.SnapshotsMax/2)
	at := func(depth int) string { return naiveKey(t.space, t.tokens[:depth*size]) }
	bytes := func(pages, guards int) int64 { return int64(pages)*m.c.PageBytes + int64(guards)*m.c.StateBytes }
	depth := min(t.indexed, pagesMax)
	if t.unpaid {
		return nil
	}
	fits := func() bool {
		if m.c.States == 0 {
			return bytes(depth, 0) <= bytesMax
		}
		return m.nodes[at(depth)].snapshot && m.nodes[at(depth)].snapshotPaid && bytes(depth, 1) <= bytesMax
	}
	for depth > 0 && !fits() {
		depth--
	}
	if depth == 0 {
		return nil
	}
	if len(m.pins) == m.c.Pages {
		m.unpin(m.pins[0])
	}
	p := &naivePin{space: t.space}
	for i := 1; i <= depth; i++ {
		p.path = append(p.path, at(i))
		m.nodes[at(i)].pins++
	}
	if m.c.States > 0 {
		wanted := []int{depth}
		for _, n := range slices.Backward(keep) {
			wanted = append(wanted, n/size)
		}
		for _, d := range wanted {
			if d < 1 || d > depth || len(p.guards) == min(4, guardsAll) || slices.Contains(p.guards, at(d)) ||
				!m.nodes[at(d)].snapshot || !m.nodes[at(d)].snapshotPaid || bytes(depth, len(p.guards)+1) > bytesMax {
				continue
			}
			p.guards = append(p.guards, at(d))
			m.nodes[at(d)].guards++
		}
	}
	m.pins = append(m.pins, p)
	for {
		pages, guards := m.kept(p.space)
		if bytes(pages, guards) <= bytesMax {
			break
		}
		m.unpin(m.pins[slices.IndexFunc(m.pins, func(o *naivePin) bool { return o.space == p.space })])
	}
	m.displace(pagesMax, func(pages, _ int) int { return pages })
	m.displace(guardsAll, func(_, guards int) int { return guards })
	return p
}

func (m *naive) displace(limit int, of func(pages, guards int) int) {
	for of(m.kept("")) > limit {
		spaces := map[string]bool{}
		for _, p := range m.pins {
			spaces[p.space] = true
		}
		older := m.pins[:len(m.pins)-1]
		m.unpin(older[max(0, slices.IndexFunc(older, func(p *naivePin) bool { return of(m.kept(p.space))*len(spaces) > limit }))])
	}
}

// TestAgainstNaivePool makes random calls of both: every hit, branch, refusal,
// snapshot and end of a pin must be the same, and so what is left of the cache.
func TestAgainstNaivePool(t *testing.T) {
	var sum Stats
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := Config{Pages: 14 + r.IntN(20), PageTokens: 16, PageBytes: 8, StateBytes: 20, Seed: seed}
		if seed%2 == 1 {
			c.States = 3 + r.IntN(6)
			c.SnapshotsMax = r.IntN(c.States)
		}
		p := newPool(t, c)
		m := &naive{c: c, nodes: map[string]*naiveNode{}}
		if err := compareCalls(r, p, m); err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, c, err)
		}
		s := p.Stats()
		sum.Hits += s.Hits
		sum.PagesEvicted += s.PagesEvicted
		sum.SnapshotsEvicted += s.SnapshotsEvicted
		sum.PinsBroken += s.PinsBroken
		sum.PinsDisplaced += s.PinsDisplaced
	}
	if sum.Hits == 0 || sum.PagesEvicted == 0 || sum.SnapshotsEvicted == 0 || sum.PinsBroken == 0 || sum.PinsDisplaced == 0 {
		t.Errorf("the calls did not come to everything: %+v", sum)
	}
}

// comparison makes the same random calls of a pool and of the naive one.
type comparison struct {
	r     *rand.Rand
	p     *Pool
	m     *naive
	open  []*naiveTable
	ended []*naivePin // once made, whether they stand or not
}

func compareCalls(r *rand.Rand, p *Pool, m *naive) error {
	c := &comparison{r: r, p: p, m: m}
	for step := range 600 {
		got, want, err := c.call()
		if err == nil && got != want {
			err = fmt.Errorf("%v, want %v", got, want)
		}
		if err == nil {
			err = c.compare()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

// call makes one call of both and returns what they said.
func (c *comparison) call() (got, want any, err error) {
	switch k := c.r.IntN(10); {
	case k < 4 && len(c.open) < 5:
		got, want = c.openTable()
	case k < 7 && len(c.open) > 0:
		got, want = c.index()
	case k < 9 && len(c.open) > 0:
		return c.close()
	case len(c.ended) > 0:
		pin := c.ended[c.r.IntN(len(c.ended))]
		got, want = c.p.Unpin(pin.handle), slices.Contains(c.m.pins, pin)
		if want == true {
			c.m.unpin(pin)
		}
	}
	return got, want, nil
}

func (c *comparison) openTable() (got, want any) {
	size := c.p.config.PageTokens
	l := &naiveTable{space: fmt.Sprint(c.r.IntN(3)), tokens: make([]int32, 1+c.r.IntN(6*size))}
	for i := range l.tokens { // few kinds of pages, so that paths meet
		l.tokens[i] = int32(i/size*10 + c.r.IntN(40)/39)
	}
	cached, branch := c.p.Open(&l.Table, l.space, l.tokens)
	a, b := c.m.open(l)
	if l.unpaid = c.r.IntN(3) == 0; l.unpaid {
		c.p.Disown(&l.Table)
	}
	ready, is := true, true
	if c.p.Hybrid() {
		_, err := c.p.TakeState(&l.Table)
		ready, is = err == nil, c.m.takeState(l)
	}
	if ready && is {
		ready, is = c.p.Grow(&l.Table, len(l.tokens)) == nil, c.m.grow(l)
	}
	if ready {
		c.p.CountHit(&l.Table)
		c.open = append(c.open, l)
	} else {
		c.m.close(l, l.State != NoState)
		c.p.Close(&l.Table)
	}
	return fmt.Sprint(cached, branch, ready), fmt.Sprint(a, b, is)
}

func (c *comparison) index() (got, want any) {
	size := c.p.config.PageTokens
	l := c.open[c.r.IntN(len(c.open))]
	if c.r.IntN(4) == 0 {
		c.p.Pay(&l.Table)
		c.m.pay(l)
	}
	n := c.r.IntN(len(l.tokens)/size+1) * size
	switch {
	case n == 0:
	case c.p.Hybrid():
		_, ok := c.p.Snapshot(&l.Table, l.tokens, n)
		return ok, c.m.snapshot(l, n)
	default:
		c.p.Index(&l.Table, l.tokens, n)
		c.m.index(l, n)
	}
	return nil, nil
}

// close closes some tables, and may pin the first of them.
func (c *comparison) close() (got, want any, err error) {
	size := c.p.config.PageTokens
	i := c.r.IntN(len(c.open))
	l := c.open[i]
	if c.r.IntN(2) == 0 {
		bytes := int64(c.r.IntN(150))
		h := c.p.Pin(&l.Table, []int{size, 2 * size, 3 * size}, bytes)
		pin := c.m.pin(l, []int{size, 2 * size, 3 * size}, bytes)
		got, want = h != Handle{}, pin != nil
		if pin != nil {
			pin.handle = h
			c.ended = append(c.ended, pin)
		}
	}
	closing := c.open[i : i+1+c.r.IntN(len(c.open)-i)]
	var tables []*Table
	for _, l := range closing {
		tables = append(tables, &l.Table)
	}
	available := c.p.PagesAvailable() + c.p.Freed(tables)
	for _, l := range closing {
		c.m.close(l, l.State != NoState)
		c.p.Close(&l.Table)
	}
	if n := c.p.PagesAvailable(); n != available {
		return nil, nil, fmt.Errorf("%d pages are available after %d tables closed, want %d", n, len(closing), available)
	}
	c.open = slices.Delete(c.open, i, i+len(closing))
	return got, want, nil
}

// compare looks at what both have now.
func (c *comparison) compare() error {
	for i, pin := range c.ended {
		if c.p.Pinned(pin.handle) != slices.Contains(c.m.pins, pin) {
			return fmt.Errorf("pin %d stands: %v", i, c.p.Pinned(pin.handle))
		}
	}
	s := c.p.Stats()
	pages, guards := c.m.kept("")
	if got, want := []int{s.PagesFree, s.Snapshots, s.StatesFree, s.PagesPinned, s.Guarded},
		[]int{c.m.free(), c.m.snapshots(), c.m.freeStates(), pages, guards}; !slices.Equal(got, want) {
		return fmt.Errorf("free pages, snapshots, free states, pinned pages and guarded snapshots are %v, want %v", got, want)
	}
	return nil
}
