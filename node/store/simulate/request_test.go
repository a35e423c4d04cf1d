package simulate

import (
	"fmt"
	"time"

	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// request is one request: what its client knows, and what is true of it.
type request struct {
	id       int
	name     string
	customer int
	node     *node
	life     int   // of its node's process
	fence    int64 // of its node, when it was admitted
	free     bool
	prompt   int64
	output   int64 // the most that it may ask for
	spent    int64 // output that it really makes when nobody ends it
	upper    abi.Nano
	runs     time.Duration
	wish     limit.Part

	got      limit.Reservation
	grant    int64 // the number of the grant that covered it
	began    time.Duration
	running  bool // it has a permit and uses it
	ended    bool
	gone     bool // its client left
	asked    bool // it waits for a verdict
	held     bool // its hold is durable
	finished time.Duration
	usedFor  time.Duration // how long it really ran
	lateAt   time.Duration // its hold came after its grant was over
	told     bool
	charge   abi.Nano
}

// ask is what it asks admission for.
func (r *request) ask() limit.Ask {
	if r.free {
		return limit.Ask{RequestID: r.name, Free: true}
	}
	c := r.node.w.customers[r.customer]
	return limit.Ask{RequestID: r.name, Prompt: r.prompt, OutputMax: r.output, Upper: r.upper, Minimum: abi.Nano(r.prompt+1) * c.price}
}

// usedAfter is how many tokens it has spent after it ran for so long.
func (r *request) usedAfter(ran time.Duration) int64 {
	if ran >= r.runs {
		return r.prompt + r.spent
	}
	return r.prompt + int64(float64(r.spent)*float64(ran)/float64(r.runs))
}

// newRequest is one that arrives at a node.
func (w *world) newRequest(c *customer, n *node) *request {
	r := &request{id: len(w.requests) + 1, customer: c.id, node: n, life: n.life, began: w.now, free: w.chance(10)}
	r.name = fmt.Sprintf("r%d", r.id)
	r.prompt, r.output = 1+w.rnd.Int64N(400), 1+w.rnd.Int64N(800)
	r.spent = w.rnd.Int64N(r.output + 1)
	r.upper = abi.Nano(r.prompt+r.output) * c.price
	r.runs = w.around(4*time.Second) + time.Millisecond
	if w.chance(20) {
		r.runs = w.around(40 * time.Second)
	}
	if r.free {
		r.runs, r.upper = w.between(time.Millisecond, 20*time.Millisecond), 0
	}
	w.requests = append(w.requests, r)
	return r
}

// arrive is a client with a new request, and the next one.
func (w *world) arrive(c *customer) {
	if w.calm {
		return
	}
	pause := w.around(c.busy)
	if (w.now/time.Second+time.Duration(5*c.id))%16 > 5 { // a crowd comes, and goes
		pause *= 5
	}
	w.after(pause+time.Millisecond, func() { w.arrive(c) })
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	if w.chance(3) {
		n = w.nodes[c.id%len(w.nodes)] // where it is busy
	}
	if n.up {
		r := w.newRequest(c, n)
		n.do(0, func() { n.receive(r) })
		if w.chance(8) {
			n.do(w.around(time.Second), func() { n.leave(r) })
		}
	}
}

// topUp adds money to an account, now and then.
func (w *world) topUp(c *customer) {
	if w.calm {
		return
	}
	w.after(w.around(20*time.Second), func() { w.topUp(c) })
	c.balance += 9_000_000
	c.initial += 9_000_000
}
