package simulate

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"
)

// The times of the protocol, as a node and its database have them.
const (
	grantLife   = 10 * time.Second       // T: of a grant, and how long a node may be silent
	grantMargin = time.Second            // a node ends both so much before the database does
	settleAfter = 60 * time.Second       // G: a survivor settles what a lost node left open; 15 min in the product
	renewEvery  = time.Second            // of a node's row
	returnEvery = 250 * time.Millisecond // a node looks whether others wait for its grants
	slowAfter   = 2 * time.Second        // a batch that takes longer goes to the journal
)

// broken is a protocol with one fault planted; the zero value has none.
type broken struct {
	fenceIgnored   bool // the database admits for a node that it gave up
	marginDropped  bool // a grant ends on the node when it ends in the database
	expiryByReply  bool // a grant's life begins when the node hears of it
	expiryByWall   bool // and is measured by the wall clock
	verdictOld     bool // a verdict is believed however old it is
	permitsEarly   bool // what runs on a node that was given up loses its permit at once
	permitInGrant  bool // a hold under a grant has no permit of its own
	grantRefilled  bool // a renewed grant forgets what the node took of it
	grantForgotten bool // a grant that is over on the node is forgotten there, though the database may renew it
	returnTwice    bool // what a grant returns is subtracted each time the batch arrives
	settledTwice   bool // a second settlement is charged too
	lateIsNote     bool // a settlement after a survivor's changes nothing
	cancelLost     bool // who leaves before the verdict gives nothing back
	journalLost    bool // a restart forgets the journal
	toldEarly      bool // a client is told its charge before that is durable
	commitsLost    bool // the database forgets its last commits in a failover
	holdUncounted  bool // the money of a hold under a grant is not held when it left the grant
	bucketUndrawn  bool // a grant takes no tokens from the bucket
	survivorPaysUp bool // a survivor settles at the hold and not at the checkpoint
}

// event is something that happens at a moment; seq keeps the order of those of one moment.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

// events is a heap of them.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is one simulation: true time, what is going to happen, and all who take part.
type world struct {
	rnd    *rand.Rand
	now    time.Duration // true time, which nobody in it can read
	queue  events
	seq    uint64
	steps  int
	broken broken

	db        *database
	nodes     []*node
	customers []*customer
	requests  []*request
	calm      bool // no more arrivals and faults: it comes to rest

	findings []string
	tally    tally
}

// tally is what happened, so that a run that proves little is noticed.
type tally struct {
	admitted, underGrant, refused, unavailable, left, told, free int
	kills, pauses, cuts, losses, stops, failovers, jumps         int
	fenced, rejoined, grants, returned, journaled, replayed      int
	survivors, adjusted, restarts, canceled, late                int
	overshoot                                                    int // the most that ran beyond a limit at once, all of it excused
}

// add sums what happened in several worlds.
func (t *tally) add(o tally) {
	most := max(t.overshoot, o.overshoot)
	sum, more := reflect.ValueOf(t).Elem(), reflect.ValueOf(o)
	for i := range sum.NumField() {
		n := (*int)(sum.Field(i).Addr().UnsafePointer())
		*n += int(more.Field(i).Int())
	}
	t.overshoot = most
}

// after has something happen later.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + d, w.seq, do})
}

// step lets the next thing happen and says whether there was one.
func (w *world) step() bool {
	if len(w.queue) == 0 {
		return false
	}
	e := heap.Pop(&w.queue).(event)
	w.now = e.at
	w.steps++
	e.do()
	return true
}

// findingsMax bounds what one run reports.
const findingsMax = 5

// find reports a promise that was broken.
func (w *world) find(format string, args ...any) {
	if len(w.findings) < findingsMax {
		w.findings = append(w.findings, fmt.Sprintf("at %v, step %d: ", w.now, w.steps)+fmt.Sprintf(format, args...))
	}
}

// between draws a time from a range.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rnd.Int64N(int64(high-low)+1))
}

// around draws from an exponential distribution, at most ten times its mean.
func (w *world) around(mean time.Duration) time.Duration {
	return time.Duration(min(w.rnd.ExpFloat64(), 10) * float64(mean))
}

// chance says yes once in n.
func (w *world) chance(n int) bool { return w.rnd.IntN(n) == 0 }
