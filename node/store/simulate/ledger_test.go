package simulate

import (
	"maps"
	"slices"
	"time"
)

// delay is how long something is on its way between a node and its database.
func (n *node) delay() time.Duration {
	if n.w.chance(60) {
		return n.w.between(time.Millisecond, 250*time.Millisecond)
	}
	return n.w.between(100*time.Microsecond, 3*time.Millisecond)
}

// flush sends what waits, one batch at a time.
func (n *node) flush() {
	if n.call != nil || n.fence == 0 {
		return
	}
	if len(n.journal) > 0 {
		if n.mono() >= n.replayAt {
			n.replayAt = n.mono() + 1250*time.Millisecond
			n.send(&call{b: &batch{rows: n.journal[:len(n.journal):len(n.journal)]}, replays: len(n.journal)})
			return
		}
		n.fail(&call{b: n.take()}) // the database gets nothing before the rows of the journal
		return
	}
	if len(n.rows)+len(n.asks)+len(n.releases)+len(n.returns) == 0 {
		return
	}
	n.send(&call{b: n.take()})
}

// take makes a batch of all that waits.
func (n *node) take() *batch {
	b := &batch{rows: n.rows, asks: n.asks, releases: n.releases, returns: n.returns}
	n.rows, n.asks, n.releases, n.returns = nil, nil, nil, nil
	return b
}

// send is a transaction: a way there, locks, a commit, a way back.
func (n *node) send(k *call) {
	k.b.node, k.b.fence = n, n.fence
	k.sent, k.wall = n.mono(), n.wall()
	k.link, k.life, k.starts = n.breaks, n.life, n.w.db.starts
	n.call = k
	n.do(slowAfter, func() { n.giveUp(k) })
	switch n.link {
	case linkCut:
		n.do(time.Millisecond, func() { n.end(k, nil, errLink) })
	case linkLost:
		n.do(4*slowAfter, func() { n.end(k, nil, errLink) })
	default:
		n.w.after(n.delay(), func() { n.begun(k) })
	}
}

// broke says whether the connection of a call is gone.
func (n *node) broke(k *call) bool {
	return n.breaks != k.link || n.life != k.life || n.w.db.starts != k.starts || !n.w.db.up
}

// begun is a transaction in the database: it waits for its locks, and its COMMIT comes after a round trip.
func (n *node) begun(k *call) {
	w := n.w
	if n.broke(k) {
		n.do(time.Millisecond, func() { n.end(k, nil, errLink) })
		return
	}
	w.db.lock(k.b, func(l *locker) { n.locked(k, l) }, func() {
		n.do(time.Millisecond, func() { n.end(k, nil, errLink) })
	})
}

// locked is a transaction that decides.
func (n *node) locked(k *call, l *locker) {
	w := n.w
	takes := w.between(300*time.Microsecond, 8*time.Millisecond)
	if w.chance(40) {
		takes = w.between(0, 200*time.Millisecond)
	}
	w.after(takes, func() {
		if n.broke(k) {
			seen := w.between(0, time.Second) // until the server sees it
			w.trouble(seen, w.nodes...)
			w.after(seen, func() { w.db.unlock(l) })
			n.do(time.Millisecond, func() { n.end(k, nil, errLink) })
			return
		}
		sync := w.between(200*time.Microsecond, 12*time.Millisecond)
		if w.chance(500) {
			sync = w.between(0, 3*slowAfter)
			w.trouble(sync, w.nodes...)
		}
		w.after(sync, func() { n.commit(k, l) })
	})
}

// commit is the moment from which what a transaction did is so, whoever waits for it.
func (n *node) commit(k *call, l *locker) {
	w := n.w
	if w.db.starts != k.starts {
		n.do(time.Millisecond, func() { n.end(k, nil, errLink) })
		return
	}
	var verdicts map[*request]verdict
	if !w.broken.commitsLost || len(k.b.asks) > 0 || !w.chance(200) {
		verdicts = w.db.commit(k.b)
	}
	if w.broken.returnTwice && w.chance(2) { // a transaction that is tried again, since its end was not heard of
		verdicts = w.db.commit(k.b)
	}
	w.db.unlock(l)
	reply := n.delay()
	lends := slices.ContainsFunc(slices.Collect(maps.Values(verdicts)), func(v verdict) bool { return v.grant != nil })
	if long := n.pauseGrant; long > 0 && lends && n.life == k.life {
		n.pauseGrant = 0
		w.pause(n, long)
	}
	if w.chance(200) {
		reply = w.between(0, slowAfter) // the answer waits in a queue
		w.trouble(reply, n)
	}
	w.after(reply, func() {
		var err error
		if n.broke(k) || n.link != linkWell {
			err = errLink
		}
		if n.life == k.life {
			n.do(0, func() { n.end(k, verdicts, err) })
		}
	})
}

// giveUp is a node that waited long enough for a batch.
func (n *node) giveUp(k *call) {
	if k.over || k.given {
		return
	}
	k.given = true
	n.fail(k)
}

// end is the end of a call: its answer, or an error.
func (n *node) end(k *call, verdicts map[*request]verdict, err error) {
	if k.over {
		return
	}
	k.over = true
	if n.call == k {
		n.call = nil
	}
	switch {
	case k.given: // its rows are in the journal, and go to the database once more
		n.calmAt = n.w.now
	case err == nil:
		n.journal = n.journal[k.replays:]
		n.w.tally.replayed += k.replays
		if k.replays == 0 {
			n.durable(k.b.rows)
		}
		for _, r := range k.b.asks {
			n.answer(k, r, verdicts[r])
		}
		n.recover()
	default:
		n.fail(k)
	}
	n.flush()
}

// fail puts rows into the journal and refuses asks whose verdict nobody knows.
func (n *node) fail(k *call) {
	if k.replays > 0 {
		return
	}
	if len(k.b.rows) > 0 {
		n.journal = append(n.journal, k.b.rows...)
		n.w.tally.journaled += len(k.b.rows)
		n.durable(k.b.rows)
	}
	n.releases = append(n.releases, k.b.releases...)
	n.returns = append(k.b.returns, n.returns...) // they say what they add up to
	for _, r := range k.b.asks {
		r.asked = false
		n.w.tally.unavailable++
		n.cancel(r)
	}
}
