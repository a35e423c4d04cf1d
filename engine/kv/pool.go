// Package kv keeps the books of the memory that outlives a step: a fixed pool
// of KV pages, the page table of each sequence, the prefix cache that lets the
// sequences of one namespace share full pages, and the snapshots of recurrent
// state that hybrid models need besides. It holds ids only; the bytes are in
// a kernel backend.
//
// Life of a page: free -> owned (refs = 1) -> shared (refs > 1) -> cached
// (refs = 0, still findable by its tokens) -> free again when evicted, oldest
// first. A page becomes findable when it is full and computed (Index). Pins
// keep a cached page from eviction, up to a share of the pool. Life of a state
// slot: free -> running (a table owns it) -> free, or free -> snapshot (a page
// owns it) -> free. For one step a table may own more of them (saves), one of
// which may become its state. A snapshot may move to a slot in host memory (host.go). Pool.Check verifies that every page and slot is in
// exactly one of these.
//
// The prefix cache is a tree of pages, not of token spans: a node is one full
// page, found through a hash chained over its parent and confirmed by
// comparing parent and tokens. A radix tree over tokens would have to split
// nodes at every divergence, yet only full pages can be shared; a tree of
// pages never splits, and its nodes are the array of pages: no allocation.
//
// A hit of n tokens needs the pages of [0, n) and, for a hybrid model, a
// snapshot exactly at n. Hits, and so snapshots, are at multiples of
// PageTokens only: a partly filled page is always private to its sequence,
// and no page is ever copied. In a hybrid pool a page that no snapshot lies
// at or below can never be hit, so it is freed as soon as nobody owns it.
//
// Nobody hits what is not paid for (Disown, Pay). Pages and snapshots that only
// unpaid tables computed go with the last table that has the page.
//
// Invariant: the leading indexed pages of a table are a path of the tree from
// its root. So refs and pins never grow on the way down, and an idle page has
// only idle pages below it.
//
// A Pool is not safe for concurrent use: the step loop is its only caller.
package kv

import (
	"errors"
	"fmt"
)

// ErrNoPages says that the pool has too few pages that are free or evictable.
var ErrNoPages = errors.New("kv: no pages left")

// ErrNoState says that every state slot is owned by a sequence or protected.
var ErrNoState = errors.New("kv: no state slot left")

// NoState is the State of a table that owns no slot, and the Src of a StateOp
// that resets.
const NoState = none

// Config is the shape of a Pool; it must agree with the backend's cache.
type Config struct {
	// Pages is the size of the page pool, at least 1.
	Pages int
	// PageTokens is the number of positions per page: 16, 32 or 64.
	PageTokens int
	// PageBytes is what one page takes on the device, at least 1. It turns the
	// limit of pinned bytes into pages.
	PageBytes int64
	// States is the number of state slots; 0 says that the model has no
	// recurrent state. Running sequences and snapshots share them.
	States int
	// SnapshotsMax is the most of them that snapshots may take, 0 to States-1.
	SnapshotsMax int
	// HostStates is the number of slots in host memory, behind the others: States and so on. Only snapshots lie there.
	HostStates int
	// StateBytes is what one slot takes on the device, at least 1 when States > 0.
	StateBytes int64
	// Seed makes the hash of tokens unpredictable to clients. Equal seeds give
	// equal behavior; no seed can give a wrong hit, only slow lookups.
	Seed uint64
}

// Validate names every field that is out of bounds.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Pages >= 1 && c.Pages < 1<<31-2, "pages is %d, want at least 1", c.Pages)
	bad(c.PageTokens == 16 || c.PageTokens == 32 || c.PageTokens == 64,
		"page tokens is %d, want 16, 32 or 64", c.PageTokens)
	bad(c.PageBytes >= 1, "page bytes is %d, want at least 1", c.PageBytes)
	bad(c.States >= 0 && c.States < 1<<31-2, "states is %d, want at least 0", c.States)
	bad(c.SnapshotsMax >= 0 && c.SnapshotsMax <= max(0, c.States-1),
		"snapshots max is %d, want 0 to %d", c.SnapshotsMax, max(0, c.States-1))
	bad(c.HostStates >= 0 && c.HostStates < 1<<31-2-c.States && (c.HostStates == 0 || c.States > 0),
		"host states is %d beside %d states, want at least 0, and 0 without states", c.HostStates, c.States)
	bad(c.States == 0 || c.StateBytes >= 1, "state bytes is %d, want at least 1", c.StateBytes)
	return errors.Join(errs...)
}

// page is one KV page and, while it is findable, one node of the prefix tree.
type page struct {
	refs int32 // tables that hold it
	pins int32 // handles whose path runs through it

	space    *space // nil: not in the tree; the fields below mean nothing then
	hash     uint64 // chained over all tokens up to the page's end
	sameHash int32  // next page in the index with this hash
	parent   int32  // page before it; none for the first of a namespace
	children int32
	depth    int32 // how many pages lie before it
	paid     bool  // a table that is paid for computed it; so it is with all before it

	snapshot int32 // slot of the state after the page's last token, or none
	used     int64 // when the snapshot was taken, wanted, started from or met again, by Pool.clock
	snapRefs int32 // tables that will start from the snapshot
	snapPins int32 // handles that protect the snapshot
	// snapshotPaid says that a table which is paid for computed it. Without a snapshot it means nothing.
	snapshotPaid bool

	hits uint32 // sequences that went on from its end
	met  int64  // when the latest of them began, or the page was computed, by Pool.now
}

// space is one namespace. It lives while anything is in it.
type space struct {
	name    string
	id      uint64 // never reused: a root of the tree
	pages   int    // pages in the tree
	tables  int    // open tables
	handles list   // its pins, newest first
	pinned  int    // distinct pages pinned
	guarded int    // distinct snapshots protected
	evicted int64  // pages that were reused
}

// Pool owns the pages and state slots of one model on one backend.
type Pool struct {
	config Config
	hybrid bool

	pages      []page
	tokens     []int32          // PageTokens per page: the content of pages in the tree
	index      map[uint64]int32 // hash -> first page with it
	free       []int32          // stack: the page given back last is used first
	idle       list             // in the tree, refs = 0, pins = 0
	idlePinned int              // in the tree, refs = 0, pins > 0: evictable after breaking pins

	spaces    map[string]*space
	spaceNext uint64
	tables    []*Table // all that are open, in no order

	freeStates    []int32
	freeHost      []int32
	snapshots     int       // slots that are snapshots
	hostSnapshots int       // of them, those of the host
	refSnapshots  int       // of both, those that a table will start from
	unguarded     list      // pages whose snapshot has no reference and no pin, used last at head
	onDevice      list      // pages whose snapshot is on the device, used last at head
	moves         []StateOp // that nobody has taken yet
	clock         int64
	now           int64 // Unix seconds, as Advance said last

	pinned, guarded int // sums of the namespaces' counts
	pinners         int // namespaces with pins
	handles         []handle
	freeHandles     []int32
	handleLinks     links // of the spaces' lists
	byAge           list  // all handles

	count  Counters
	checks checks
}

// New returns a pool in which everything is free.
func New(c Config) (*Pool, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("kv: %w", err)
	}
	p := &Pool{
		config: c, hybrid: c.States > 0,
		pages:  make([]page, c.Pages),
		tokens: make([]int32, c.Pages*c.PageTokens),
		index:  make(map[uint64]int32),
		spaces: make(map[string]*space),

		idle: newList(newLinks(c.Pages)), unguarded: newList(newLinks(c.Pages)), onDevice: newList(newLinks(c.Pages)),
		handles:     make([]handle, c.Pages),
		handleLinks: newLinks(c.Pages), byAge: newList(newLinks(c.Pages)),
	}
	// Stacks are filled downwards so that low ids are used first.
	for i := int32(c.Pages) - 1; i >= 0; i-- {
		p.free = append(p.free, i)
		p.freeHandles = append(p.freeHandles, i)
		p.pages[i] = page{parent: none, sameHash: none, snapshot: none}
	}
	for i := int32(c.States) - 1; i >= 0; i-- {
		p.freeStates = append(p.freeStates, i)
	}
	for i := c.HostStates - 1; i >= 0; i-- {
		p.freeHost = append(p.freeHost, int32(c.States+i))
	}
	return p, nil
}

// Advance tells the pool the time, in Unix seconds. It is for people who look at the
// cache: nothing is decided by it.
func (p *Pool) Advance(now int64) { p.now = now }

// Config returns what New was given.
func (p *Pool) Config() Config { return p.config }

// Hybrid says whether sequences need a state slot.
func (p *Pool) Hybrid() bool { return p.hybrid }

// PagesFor is the number of pages that n positions take.
func (p *Pool) PagesFor(n int) int {
	return (n + p.config.PageTokens - 1) / p.config.PageTokens
}

// PagesFree is the number of pages that hold nothing, not even for the cache.
func (p *Pool) PagesFree() int { return len(p.free) }

// PagesAvailable is the number of pages that Grow could hand out now.
func (p *Pool) PagesAvailable() int { return len(p.free) + p.idle.len + p.idlePinned }

// takePage returns a page that nobody uses: a free one, else the one cached
// longest ago, else one behind the oldest pin. Last resort: pins guard against
// other cached pages, never against a sequence that runs.
func (p *Pool) takePage() int32 {
	for len(p.free) == 0 {
		if p.idle.len > 0 {
			p.count.PagesEvicted++
			p.pages[p.idle.tail].space.evicted++
			p.drop(p.idle.tail)
			continue
		}
		if !p.breakPin(p.frees) {
			panic("kv: no page although PagesAvailable counted one")
		}
	}
	return pop(&p.free)
}

// retain adds a table's reference to a page of the tree.
func (p *Pool) retain(id int32) {
	n := &p.pages[id]
	if n.refs == 0 {
		if n.pins > 0 {
			p.idlePinned--
		} else {
			p.idle.remove(id)
		}
	}
	n.refs++
}

// startable says whether sequences of a hybrid pool can start from the page's end.
func (n *page) startable() bool { return n.snapshot != none && n.snapshotPaid }

// settle puts a page of the tree that has no reference left where it belongs.
// Callers go up a path, so that a parent is always newer than its children
// and the oldest idle page is a leaf.
func (p *Pool) settle(id int32) {
	n := &p.pages[id]
	if n.snapshot != none && !n.snapshotPaid {
		p.forget(id)
	}
	switch {
	case n.pins > 0:
		p.idlePinned++
	case p.dead(n):
		p.unlink(id)
		p.free = append(p.free, id)
	default:
		p.idle.pushFront(id)
	}
}

// dead says that no hit can reach a page that no table has.
func (p *Pool) dead(n *page) bool {
	return !n.paid || p.hybrid && n.children == 0 && n.snapshot == none
}
