package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/clock"
	"corenode/extensions/logtest"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// world is a store that nodes share, in memory.
type world struct {
	mu      sync.Mutex
	nodes   map[string]*row // Guarded by mu, like the rest.
	changes []store.Change
	forgot  int // so many of the first changes are forgotten
}

type row struct {
	store.Node
	renewed time.Time
}

// link is one node's way to the world.
type link struct {
	w          *world
	id         string
	fence      int64
	cut        bool
	noRenewals bool // renewals do not pass
	noChanges  bool // changes do not pass
}

var errCut = errors.New("the link is cut")

func (l *link) Lease() time.Duration { return lease }

func (l *link) live(r *row) bool {
	return r.State != store.NodeFenced && r.State != store.NodeGone && time.Since(r.renewed) < lease
}

func (l *link) Register(_ context.Context, p store.Presence) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.cut {
		return errCut
	}
	r := l.w.nodes[l.id]
	if r == nil {
		r = &row{}
		l.w.nodes[l.id] = r
	} else if r.Home != p.Home && l.live(r) {
		return store.ErrNodeTaken
	}
	r.ID, r.Presence, r.Fence, r.renewed = l.id, p, r.Fence+1, time.Now()
	l.fence = r.Fence
	return nil
}

func (l *link) Renew(_ context.Context, p store.Presence, fence bool) (told store.Told, err error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	r := l.w.nodes[l.id]
	switch {
	case l.cut || l.noRenewals:
		return told, errCut
	case r.Fence != l.fence || r.State == store.NodeFenced:
		return told, store.ErrFenced
	}
	r.Presence, r.renewed = p, time.Now()
	for id, other := range l.w.nodes {
		if fence && !l.live(other) && other.State != store.NodeFenced {
			other.State, other.Fence = store.NodeFenced, other.Fence+1
			told.Lost = append(told.Lost, id)
		}
		if l.live(other) {
			told.Live = append(told.Live, other.Node)
		}
	}
	told.Drain = r.Drain
	return told, nil
}

func (l *link) Position(context.Context) (store.Position, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return store.Position(strconv.Itoa(len(l.w.changes))), nil
}

func (l *link) Changes(_ context.Context, since store.Position) ([]store.Change, store.Position, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.cut || l.noChanges {
		return nil, since, errCut
	}
	from, err := strconv.Atoi(string(since))
	behind := store.Position(strconv.Itoa(len(l.w.changes)))
	if from < l.w.forgot {
		return []store.Change{{Topic: store.TopicAll}}, behind, err
	}
	return slices.Clone(l.w.changes[from:]), behind, err
}

func (l *link) Listen(ctx context.Context, heard func()) {
	heard()
	<-ctx.Done()
}

func (l *link) Nodes(string, int) ([]store.Node, error) { return nil, nil }

func (l *link) AskDrain(id string) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.nodes[id].Drain = true
	return nil
}

func (l *link) Unaware(context.Context, string, string) (ids []string, err error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.cut {
		return nil, errCut
	}
	for id, r := range l.w.nodes {
		if l.live(r) && string(r.Known) != strconv.Itoa(len(l.w.changes)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (l *link) setCut(cut bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.cut = cut
}

// setLost cuts off one of the two things that a node asks for again and again, or both.
func (l *link) setLost(noRenewals, noChanges bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.noRenewals, l.noChanges = noRenewals, noChanges
}

func (l *link) changed(subject string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.changes = append(l.w.changes, store.Change{Topic: store.TopicAccount, Subject: subject})
}

// peer is a node of a test.
type peer struct {
	*Member
	*link
	mu      sync.Mutex
	applied []string // Guarded by mu; "all" for all.
	broken  error    // Guarded by mu; what applying gives.
	drained bool     // Guarded by mu.
	paused  time.Duration
	said    logtest.Lines
}

func newWorld() *world { return &world{nodes: map[string]*row{}} }

// join starts a node until the test ends.
func (w *world) join(t *testing.T, id, models string) *peer {
	t.Helper()
	p := &peer{link: &link{w: w, id: id}}
	c := Config{Nodes: p.link, Log: slog.New(slog.NewTextHandler(&p.said, nil)),
		Presence: func() store.Presence { return store.Presence{Home: id, ModelsDigest: models} },
		Drain:    func() { p.set(func() { p.drained = true }) },
		Pause: func() {
			var pause time.Duration
			p.set(func() { pause = p.paused })
			time.Sleep(pause)
		}}
	var err error
	if p.Member, err = Join(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p.Handle(store.TopicAccount, p.apply)
	at, _ := p.Position(t.Context())
	p.Follow(at)
	p.Serve()
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() { p.Run(stopped); close(ended) }()
	t.Cleanup(func() { close(stopped); <-ended })
	return p
}

func (p *peer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *peer) apply(subjects []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return p.broken
	}
	if subjects == nil {
		subjects = []string{"all"}
	}
	p.applied = append(p.applied, subjects...)
	return nil
}

func (p *peer) want(t *testing.T, when string, state store.NodeState) {
	t.Helper()
	is, _ := p.State()
	admits := state == store.NodeUp || state == store.NodeDraining
	if err := p.Admits(); is != state || (err == nil) != admits || (p.Ready() == nil) != admits {
		t.Errorf("%s: it is %s, refuses with %v, is not ready for %v; want %s", when, is, err, p.Ready(), state)
	}
}

func (p *peer) wantApplied(t *testing.T, when string, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.applied, want) {
		t.Errorf("%s: it applied %v, want %v", when, p.applied, want)
	}
	p.applied = nil
}

// wantSaid wants each line once in the log.
func (p *peer) wantSaid(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n := strings.Count(p.said.String(), line); n != 1 {
			t.Errorf("it said %d times: %s\n%s", n, line, p.said.String())
		}
	}
}

// wantAllRead wants that the last thing that was read anew is everything, whatever was read before.
func (p *peer) wantAllRead(t *testing.T, when string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.applied) == 0 || p.applied[len(p.applied)-1] != "all" {
		t.Errorf("%s: it applied %v, want all in the end", when, p.applied)
	}
	p.applied = nil
}

// after lets some time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestCutNodeStopsAndComesBack: a node without a word admits until its lease less the margin is
// over, is counted out by another, and is up again without a restart once it is heard, with a
// new fence and what changed meanwhile.
func TestCutNodeStopsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.join(t, "a", "m"), w.join(t, "b", "m")
		pass(15 * time.Second)
		a.want(t, "at rest", store.NodeUp)
		a.setCut(true)
		pass(7 * time.Second)
		if err := a.Admits(); err != nil {
			t.Errorf("while its lease lasts: %v", err)
		}
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "cut") {
			t.Errorf("ready: %v", err)
		}
		b.changed("x")
		pass(4 * time.Second)
		a.want(t, "after the lease", store.NodeFenced)
		if e := a.Admits(); e.Kind != abi.Overloaded || e.RetryAfter <= 0 {
			t.Errorf("refused with %+v", e)
		}
		pass(2 * time.Second)
		if w.nodes["a"].State != store.NodeFenced || w.nodes["a"].Fence != 2 {
			t.Errorf("the others see %+v", w.nodes["a"])
		}
		b.wantApplied(t, "it was there", "x")
		pass(time.Minute)
		a.setCut(false)
		pass(3 * time.Second)
		a.want(t, "healed", store.NodeUp)
		a.wantSaid(t, "what others changed was not read", "what others changed was read again", "does not renew the place",
			"counted this one out", "the node joined again", "the node admits again")
		a.wantAllRead(t, "meanwhile")
		if w.nodes["a"].Fence != 3 || w.nodes["a"].State != store.NodeUp {
			t.Errorf("the others see %+v", w.nodes["a"])
		}
		_, of := a.State()
		if _, byB := b.State(); of.Fenced != 1 || of.Fences != 0 || byB.Fences != 1 || byB.Fenced != 0 {
			t.Errorf("counted %+v and %+v", of, byB)
		}
	})
}

// TestSuspendedNodeStops: a node whose machine was suspended admits nothing when it wakes, before it has had a word with
// the store; then it is up again, and has read what changed.
func TestSuspendedNodeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.join(t, "a", "m")
		pass(15 * time.Second)
		a.want(t, "at rest", store.NodeUp)
		a.setCut(true)
		a.set(func() { a.applied = nil })
		defer clock.Suspend(lease)()
		a.want(t, "it wakes", store.NodeFenced)
		a.setCut(false)
		pass(3 * time.Second)
		a.want(t, "it was heard", store.NodeUp)
		a.wantAllRead(t, "meanwhile")
		if _, counts := a.State(); counts.Fenced != 1 {
			t.Errorf("counted %+v", counts)
		}
	})
}

// TestTakenNodeSaysSoOnce: a node that was counted out, and finds another process as the node of its id, says so once, and is up
// when that one has gone.
func TestTakenNodeSaysSoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.join(t, "a", "m")
		w.join(t, "b", "m")
		pass(15 * time.Second)
		a.setCut(true)
		pass(20 * time.Second)
		home := func(home string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			other := w.nodes["a"]
			other.Home, other.State, other.renewed = home, store.NodeUp, time.Now()
		}
		home("a copy")
		a.setCut(false)
		pass(5 * time.Second)
		a.want(t, "while it is taken", store.NodeFenced)
		if n := strings.Count(a.said.String(), "cannot join again"); !a.Taken() || n != 1 {
			t.Errorf("taken: %t, said %d times", a.Taken(), n)
		}
		home("a")
		pass(5 * time.Second)
		a.want(t, "the other one has gone", store.NodeUp)
		if a.Taken() {
			t.Error("it is taken still")
		}
	})
}

// TestOutageCountsNobodyOut: where the store is away for all, each stops, and each comes back under
// the fence that it had.
func TestOutageCountsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.join(t, "a", "m"), w.join(t, "b", "m")
		pass(15 * time.Second)
		a.setCut(true)
		b.setCut(true)
		pass(7 * time.Second)
		if said := a.said.String(); strings.Contains(said, "not renew") {
			t.Errorf("while it admits: %s", said)
		}
		pass(time.Minute)
		a.want(t, "in the outage", store.NodeFenced)
		a.wantSaid(t, `msg="the database does not renew the place of this node, which admits nothing meanwhile" `+
			`error="the link is cut" since=2000-01-01T00:00:15.000Z`)
		a.setCut(false)
		pass(6 * time.Second)
		a.want(t, "after it", store.NodeUp)
		b.setCut(false)
		pass(2 * time.Second)
		b.want(t, "a little later", store.NodeUp)
		a.wantSaid(t, "the node admits again")
		b.wantSaid(t, "not renew", "the node admits again")
		if w.nodes["a"].Fence != 1 || w.nodes["b"].Fence != 1 {
			t.Errorf("fences %d and %d", w.nodes["a"].Fence, w.nodes["b"].Fence)
		}
	})
}

// TestReadingAloneAdmitsNothing: a node whose last renewal is old does not say that it admits again when it reads what changed.
func TestReadingAloneAdmitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorld().join(t, "a", "m")
		pass(15 * time.Second)
		a.setLost(true, true)
		pass(20 * time.Second)
		a.setLost(false, true)
		pass(2 * time.Second)
		a.setLost(true, true)
		pass(lease)
		a.setLost(true, false)
		pass(3 * time.Second)
		a.want(t, "it reads", store.NodeFenced)
		if said := a.said.String(); strings.Contains(said, "admits again") {
			t.Errorf("it said %s", said)
		}
		a.setLost(false, false)
		pass(3 * time.Second)
		a.want(t, "it renews", store.NodeUp)
		a.wantSaid(t, "does not renew the place", "the node admits again")
	})
}

// TestPausedNodeAdmitsNothingWhenItWakes: a node that stood still for long is out before its loops run again.
func TestPausedNodeAdmitsNothingWhenItWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.join(t, "a", "m"), w.join(t, "b", "m")
		pass(15 * time.Second)
		a.set(func() { a.paused = time.Minute })
		pass(30 * time.Second)
		if a.Admits() == nil {
			t.Error("it admits")
		}
		if w.nodes["a"].State != store.NodeFenced {
			t.Errorf("the others see %+v", w.nodes["a"])
		}
		a.set(func() { a.paused = 0 })
		pass(time.Minute)
		a.want(t, "awake", store.NodeUp)
		b.want(t, "the other", store.NodeUp)
	})
}

// TestChangeIsSpread: a command that waits for a change returns when all live nodes have it, does not
// wait for one that is out, and names one that has not within the lease.
func TestChangeIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.join(t, "a", "m"), w.join(t, "b", "m")
		pass(15 * time.Second)
		spread := func(when string, longest time.Duration, want ...string) {
			t.Helper()
			began := time.Now()
			unaware, err := a.Spread(t.Context(), store.TopicAccount, "x")
			if took := time.Since(began); err != nil || !slices.Equal(unaware, want) || took > longest {
				t.Errorf("%s: unaware are %v, %v, after %s", when, unaware, err, took)
			}
		}
		a.changed("x")
		spread("all live", 3*time.Second)
		b.wantApplied(t, "all live", "x")
		b.set(func() { b.broken = errCut })
		a.changed("y")
		spread("one cannot apply it", 11*time.Second, "b")
		b.set(func() { b.broken = nil })
		spread("it can again", 3*time.Second)
		b.wantApplied(t, "it can again", "y")
		b.setCut(true)
		a.changed("z")
		spread("one is cut off", lease+time.Second) // it is out before the time is over
		b.want(t, "cut off", store.NodeFenced)
		a.setCut(true)
		if _, err := a.Spread(t.Context(), store.TopicAccount, "x"); !errors.Is(err, errCut) {
			t.Errorf("without the store: %v", err)
		}
	})
}

// TestForgottenChangesAreReadAnew: who was away for so long reads all.
func TestForgottenChangesAreReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.join(t, "a", "m")
		pass(time.Second)
		a.setCut(true)
		a.changed("x")
		w.mu.Lock()
		w.forgot = 1
		w.mu.Unlock()
		pass(time.Hour)
		a.setCut(false)
		pass(3 * time.Second)
		a.wantAllRead(t, "back")
		a.want(t, "back", store.NodeUp)
	})
}

// TestDrainComesWithARenewal: an operator's word reaches the node, which says what it does.
func TestDrainComesWithARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.join(t, "a", "m"), w.join(t, "b", "other")
		pass(2 * time.Second)
		if err := b.AskDrain("a"); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		var drained bool
		if a.set(func() { drained = a.drained }); !drained {
			t.Fatal("it was not told")
		}
		a.Draining()
		pass(2 * time.Second)
		a.want(t, "draining", store.NodeDraining)
		if w.nodes["a"].State != store.NodeDraining {
			t.Errorf("the others see %+v", w.nodes["a"])
		}
		if all := a.Differences(); len(all) != 1 || !strings.Contains(all[0], "the node b serves other models") {
			t.Errorf("differences: %v", all)
		}
	})
}
