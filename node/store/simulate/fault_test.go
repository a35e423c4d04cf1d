package simulate

import "time"

// begin and end of a fault that touches a node.
func (n *node) troubled() { n.fault++ }
func (n *node) well() {
	n.fault--
	n.calmAt = n.w.now
}

// trouble has a fault touch nodes for a time.
func (w *world) trouble(d time.Duration, nodes ...*node) {
	for _, n := range nodes {
		n.troubled()
		w.after(d, n.well)
	}
}

// faultEvery is the mean time between two faults.
const faultEvery = 12 * time.Second

// fail lets something go wrong, and the next thing later.
func (w *world) fail() {
	if w.calm {
		return
	}
	w.after(w.around(faultEvery)+time.Second, w.fail)
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	long := w.between(500*time.Millisecond, 30*time.Second)
	if w.chance(2) {
		long = w.between(500*time.Millisecond, 4*time.Second)
	}
	if w.chance(8) {
		long = w.between(settleAfter, 2*settleAfter) // survivors settle
	}
	switch w.rnd.IntN(9) {
	case 0, 1:
		w.kill(n, long)
	case 2:
		w.pause(n, long)
	case 3:
		n.pauseNext = long
	case 4:
		n.pauseGrant = min(long, w.between(2*time.Second, 20*time.Second))
	case 5:
		w.cut(n, linkCut, long)
	case 6:
		w.cut(n, linkLost, long)
	case 7:
		w.stopDatabase(min(long, 25*time.Second))
	case 8:
		n.offset += time.Hour * time.Duration(1-2*w.rnd.IntN(2))
		w.tally.jumps++
	}
}

// kill ends a process, and starts another one later.
func (w *world) kill(n *node, down time.Duration) {
	if !n.up {
		return
	}
	w.tally.kills++
	w.trouble(down, n)
	n.die()
	w.after(down, n.start)
}

// pause stops a process for a while, as SIGSTOP does.
func (w *world) pause(n *node, long time.Duration) {
	if !n.up || n.paused {
		return
	}
	w.tally.pauses++
	w.trouble(long, n)
	n.paused = true
	life := n.life
	w.after(long, func() {
		if n.life != life {
			return
		}
		n.paused = false
		for len(n.frozen) > 0 && n.life == life {
			f := n.frozen[0]
			n.frozen = n.frozen[1:]
			f()
		}
	})
}

// cut takes a node's link to the database away.
func (w *world) cut(n *node, to linkState, long time.Duration) {
	if n.link != linkWell {
		return
	}
	if to == linkCut {
		w.tally.cuts++
	} else {
		w.tally.losses++
	}
	w.trouble(long, n)
	n.link = to
	n.breaks++
	w.after(long, func() { n.link = linkWell })
}

// stopDatabase ends the server at once, or lets a synchronous standby take over, which has all commits.
func (w *world) stopDatabase(long time.Duration) {
	if !w.db.up {
		return
	}
	if w.chance(2) {
		long = w.between(time.Second, 3*time.Second)
		w.tally.failovers++
	} else {
		w.tally.stops++
	}
	w.trouble(long, w.nodes...)
	w.db.stop()
	w.after(long, func() { w.db.up = true })
}
