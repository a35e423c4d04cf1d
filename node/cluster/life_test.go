package cluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"corenode/node/store"
)

const lease = 10 * time.Second

// after is a moment of a test.
func after(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }

// begun is a node that registered at 0, started, and has followed.
func begun() *Life {
	l := &Life{Times: TimesOf(lease)}
	l.Registered(after(0))
	l.Serves()
	l.Followed(l.Gaps())
	return l
}

// TestLifeOfANode: what each step of a node's life means for who asks it.
func TestLifeOfANode(t *testing.T) {
	type step struct {
		name   string
		do     func(l *Life)
		at     time.Duration
		admits bool
		state  store.NodeState
	}
	renewed := func(sent, answered time.Duration) func(*Life) {
		return func(l *Life) { l.Renewed(after(sent), after(answered)) }
	}
	nothing := func(*Life) {}
	followed := func(l *Life) { l.Followed(l.Gaps()) }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"renewals carry it on", []step{
			{"registered", nothing, 0, true, store.NodeUp},
			{"renewed", renewed(5*time.Second, 6*time.Second), 13 * time.Second, true, store.NodeUp},
			{"the margin before the lease after it was sent", nothing, 14 * time.Second, false, store.NodeFenced},
		}},
		{"an answer that comes late counts from when it was asked for", []step{
			{"renewed", renewed(time.Second, 8*time.Second), 9999 * time.Millisecond, true, store.NodeUp},
			{"over", nothing, 10 * time.Second, false, store.NodeFenced},
		}},
		{"an older answer takes nothing away", []step{
			{"renewed", renewed(5*time.Second, 5*time.Second), 5 * time.Second, true, store.NodeUp},
			{"older", renewed(time.Second, 6*time.Second), 13 * time.Second, true, store.NodeUp},
		}},
		{"a pause: its renewal was sent before", []step{
			{"renewed", renewed(time.Second, time.Minute), time.Minute, false, store.NodeFenced},
			{"and once more", renewed(time.Minute, time.Minute), time.Minute, false, store.NodeFenced},
			{"it has followed", followed, time.Minute, true, store.NodeUp},
		}},
		{"its fence is gone", []step{
			{"lost", (*Life).Lost, time.Second, false, store.NodeFenced},
			{"followed without a fence", followed, time.Second, false, store.NodeFenced},
			{"a renewal that was under way", renewed(0, 2*time.Second), 2 * time.Second, false, store.NodeFenced},
			{"registered", func(l *Life) { l.Registered(after(3 * time.Second)) }, 3 * time.Second, false, store.NodeFenced},
			{"followed", followed, 3 * time.Second, true, store.NodeUp},
		}},
		{"what was followed before a gap is old", []step{
			{"lost", func(l *Life) {
				before := l.Gaps()
				l.Lost()
				l.Registered(after(3 * time.Second))
				l.Followed(before)
			}, 3 * time.Second, false, store.NodeFenced},
		}},
		{"a drain", []step{
			{"drains", (*Life).Drains, time.Second, true, store.NodeDraining},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := begun()
			for _, s := range c.steps {
				s.do(l)
				if admits, state := l.Admits(after(s.at)), l.State(after(s.at)); admits != s.admits || state != s.state {
					t.Errorf("%s: admits %t, %s; want %t, %s", s.name, admits, state, s.admits, s.state)
				}
			}
		})
	}
	l := &Life{Times: TimesOf(lease)}
	if !l.Registers() || l.Admits(after(0)) || l.State(after(0)) != store.NodeStarting {
		t.Error("a node that was never registered is not one that starts")
	}
	l.Registered(after(0))
	if l.Registers() || l.Admits(after(0)) || l.Claims() != store.NodeStarting {
		t.Error("a node that has not followed admits, or says that it is up")
	}
}

// TestWhoMayCountOthersOut: only a node whose own renewals were answered for a lease, so that after
// an outage of the store nobody is counted out who has just as long to come back.
func TestWhoMayCountOthersOut(t *testing.T) {
	l := begun()
	for at := time.Duration(0); at <= 12*time.Second; at += time.Second {
		l.Renewed(after(at), after(at))
		if may := l.Fences(after(at)); may != (at >= lease) {
			t.Errorf("after %s: %t", at, may)
		}
	}
	if l.Fences(after(30 * time.Second)) {
		t.Error("it was silent itself")
	}
	back := 40 * time.Second // the store answers again
	for at := back; at <= back+12*time.Second; at += time.Second {
		l.Renewed(after(at), after(at))
		if may := l.Fences(after(at)); may != (at >= back+lease) {
			t.Errorf("%s after the outage: %t", at-back, may)
		}
	}
	l.Lost()
	if l.Fences(after(back + 12*time.Second)) {
		t.Error("its fence is gone")
	}
}

// server is what the store knows of one node, by its own clock.
type server struct {
	fence, renewed int64 // the present fence, and when it was renewed, in milliseconds
	fenced         bool
	revoked        int64 // changes that there are
}

// TestNodeStopsBeforeOthersCountOnIt walks through lost and late words, pauses and fencing at
// random: whenever the node admits, its fence is the present one and was renewed within the
// lease, and it has all changes that others do not wait for any more.
func TestNodeStopsBeforeOthersCountOnIt(t *testing.T) {
	admitted := 0
	for seed := range uint64(300) {
		admitted += walk(t, seed)
	}
	if admitted < 100_000 {
		t.Errorf("it admitted at %d moments only", admitted)
	}
}

// word is one that the node sent and that is under way.
type word struct {
	registers           bool
	sent, comes, answer int64 // milliseconds; never: lost
	fence               int64
	done, ok            bool
}

// reading is what a node read of the changes, and when.
type reading struct {
	gaps    int
	revoked int64
}

// never is a moment that does not come.
const never = 1 << 60

// walker is one walk.
type walker struct {
	r     *rand.Rand
	db    server
	life  Life
	fence int64 // of the node
	knows int64 // changes that it applied
	// settled are the changes of which a command said that all know them.
	settled int64
	pending *word
	read    *reading
	paused  int64 // until then
}

func ms(n int64) time.Time { return after(time.Duration(n) * time.Millisecond) }

// walk returns at how many moments the node admitted.
func walk(t *testing.T, seed uint64) (admitted int) {
	w := &walker{r: rand.New(rand.NewPCG(seed, 0)), db: server{fenced: true}, life: Life{Times: TimesOf(lease)}}
	w.life.Serves()
	for now := int64(0); now < 120_000; now += 50 {
		if w.r.IntN(400) == 0 {
			w.paused = now + w.r.Int64N(40_000)
		}
		w.server(now)
		if now >= w.paused {
			w.node(now)
		}
		silent := w.db.fenced || now-w.db.renewed > lease.Milliseconds()
		if silent || w.knows == w.db.revoked {
			w.settled = w.db.revoked // nobody waits for this node
		}
		if !w.life.Admits(ms(now)) {
			continue
		}
		admitted++
		if silent || w.fence != w.db.fence || w.knows < w.settled {
			t.Fatalf("seed %d: at %d ms it admits under fence %d and knows %d changes of %d; the store has %+v", seed, now, w.fence, w.knows,
				w.settled, w.db)
		}
	}
	return admitted
}

// server does what came, what others do, and counts the node out at some time.
func (w *walker) server(now int64) {
	if p := w.pending; p != nil && !p.done && now >= p.comes {
		p.done = true
		if p.registers {
			w.db.fence, w.db.fenced, w.db.renewed, p.fence, p.ok = w.db.fence+1, false, now, w.db.fence+1, true
		} else if p.ok = p.fence == w.db.fence && !w.db.fenced; p.ok {
			w.db.renewed = now
		}
	}
	if w.r.IntN(40) == 0 {
		w.db.revoked++
	}
	if !w.db.fenced && now-w.db.renewed > lease.Milliseconds() && w.r.IntN(300) == 0 {
		w.db.fence, w.db.fenced = w.db.fence+1, true
	}
}

// node hears, sends and follows.
func (w *walker) node(now int64) {
	if p := w.pending; p != nil && (now >= p.answer || now-p.sent > 2000) { // it waits no more
		w.pending = nil
		switch {
		case !p.done || now < p.answer:
		case p.ok && p.registers:
			w.fence = p.fence
			w.life.Registered(ms(p.sent))
		case p.ok:
			w.life.Renewed(ms(p.sent), ms(now))
		default:
			w.life.Lost()
		}
	}
	if w.pending == nil {
		p := &word{registers: w.life.Registers(), sent: now, fence: w.fence, comes: now + w.r.Int64N(400)}
		p.answer = now + 400 + w.r.Int64N(400)
		switch w.r.IntN(12) {
		case 0:
			p.comes = never
		case 1:
			p.answer = now + w.r.Int64N(30_000)
			p.comes = now + w.r.Int64N(p.answer-now+1)
		}
		w.pending = p
	}
	if w.r.IntN(60) == 0 { // it reads what there is, and applies it later
		if w.read != nil {
			w.knows = w.read.revoked
			w.life.Followed(w.read.gaps)
		}
		w.read = &reading{gaps: w.life.Gaps(), revoked: w.db.revoked}
	}
}
