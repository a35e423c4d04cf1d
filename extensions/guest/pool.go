package guest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"corenode/wasm/abi"
)

// Pool lends the instances of one module, each for one call. It begins
// with one, makes another whenever a caller has to wait, up to limit, and makes
// new ones for those that faulted.
type Pool struct {
	make    func() (*Instance, *Fault)
	limit   int
	image   *image // restored before another account's call; nil when memory may be shared between accounts
	remake  bool   // an image cannot hold all state: another account's call takes a new instance
	memory  uint32 // bytes of an instance that was just made
	growers sync.WaitGroup

	// hot is one free instance, the last one given back: where calls do not
	// overlap it goes out and in without the lock. Whoever gives it back looks at
	// attention afterwards, and whoever raises attention looks at hot afterwards,
	// so that no instance lies here while somebody waits for it.
	hot       atomic.Pointer[Instance]
	attention atomic.Int64 // callers that look for an instance or wait for one

	mu      sync.Mutex
	free    []*Instance      // other free ones; the last one given back is taken first
	waiting []chan *Instance // oldest first, each with room for one; at most waitersMax
	total   int              // instances that live, busy ones and one being made included
	growing bool             // one is being made in the background
	closed  bool
	lacking *Fault // why the last one was not made
	done    Work   // without what the instances hold themselves: of a busy one that is little

	settle   func(advance, took time.Duration) // see PoolOptions
	costs    [len(opsCounted)]cost
	restores cost   // of memory from the image; a byte is a tick
	learn    uint64 // calls of each operation that are timed first
	compared uint64 // see PoolOptions
}

// PoolOptions say how the instances of a module are lent.
type PoolOptions struct {
	// InstancesMax is the most instances.
	InstancesMax int
	// Settle is told what calls took of the processors, some calls at a time, and what it took to
	// make instances and their memory fresh, and gives back what was taken for calls in advance.
	Settle func(advance, took time.Duration)
	// Compared is the timed calls of an operation that Usual speaks of, at least.
	Compared int
}

// newPool makes a pool of a first instance. makeOne makes the others.
func newPool(o PoolOptions, first *Instance, makeOne func() (*Instance, error)) *Pool {
	p := &Pool{limit: o.InstancesMax, memory: uint32(first.size()), total: 1, free: []*Instance{first},
		settle: o.Settle, compared: uint64(o.Compared), learn: max(costLearn, uint64(o.Compared))}
	p.make = func() (*Instance, *Fault) {
		var watch stopwatch
		watch.reset()
		i, err := makeOne()
		took := watch.end()
		p.settle(0, took)
		p.mu.Lock()
		p.done[opNone].CPU += took
		p.mu.Unlock()
		switch {
		case errors.Is(err, errNoRoom):
			return nil, Faultf(CauseOverloaded, "%v", err)
		case err != nil:
			return nil, Faultf(CauseInstantiate, "%v", err)
		}
		return i, nil
	}
	return p
}

// WaitMax is the time that a call waits for an instance.
const WaitMax = 2 * time.Second

const (
	waitersMax = 4096
	oweMax     = 20 * time.Microsecond // what an instance may have used before Settle is told
	growthMax  = 4                     // times its first memory: an instance that holds more is replaced
)

// take lends an instance whose memory holds nothing of another account.
func (p *Pool) take(account string) (*Instance, *Fault) {
	if i := p.hot.Swap(nil); i != nil {
		if p.image == nil || i.account == account {
			return i, nil
		}
		p.mu.Lock()
		p.free = append(p.free, i)
		p.mu.Unlock()
	}
	return p.search(account)
}

// search takes any free instance, or waits for one.
func (p *Pool) search(account string) (*Instance, *Fault) {
	p.attention.Add(1)
	p.mu.Lock()
	p.gather()
	if i := p.pick(account); i != nil {
		p.attention.Add(-1)
		p.mu.Unlock()
		return p.fit(i, account)
	}
	if len(p.waiting) >= waitersMax {
		p.attention.Add(-1)
		p.mu.Unlock()
		return nil, Faultf(CauseOverloaded, "%d calls wait for an instance", waitersMax)
	}
	w := make(chan *Instance, 1)
	p.waiting = append(p.waiting, w)
	p.grow()
	p.mu.Unlock()
	i, f := p.wait(w)
	if f != nil {
		return nil, f
	}
	return p.fit(i, account)
}

// gather puts the hot instance among the other free ones. mu is held.
func (p *Pool) gather() {
	if i := p.hot.Swap(nil); i != nil {
		p.offer(i)
	}
}

// pick takes a free instance, one that served this account last if there is.
// mu is held.
func (p *Pool) pick(account string) *Instance {
	last := len(p.free) - 1
	if last < 0 {
		return nil
	}
	if p.image != nil {
		for n := last; n >= 0; n-- {
			if p.free[n].account == account {
				p.free[n], p.free[last] = p.free[last], p.free[n]
				break
			}
		}
	}
	i := p.free[last]
	p.free[last] = nil
	p.free = p.free[:last]
	return i
}

func (p *Pool) wait(w chan *Instance) (*Instance, *Fault) {
	timer := time.NewTimer(WaitMax)
	defer timer.Stop()
	select {
	case i := <-w:
		return p.given(i)
	case <-timer.C:
	}
	p.mu.Lock()
	for n, other := range p.waiting {
		if other == w {
			p.waiting = append(p.waiting[:n], p.waiting[n+1:]...)
			p.attention.Add(-1)
			break
		}
	}
	p.mu.Unlock()
	select { // one may have come at the last moment
	case i := <-w:
		return p.given(i)
	default:
		return nil, Faultf(CauseOverloaded, "all %d instances were busy for %v", p.limit, WaitMax)
	}
}

// given is what somebody who waited gets: nil says that none could be made and none is left.
func (p *Pool) given(i *Instance) (*Instance, *Fault) {
	if i != nil {
		return i, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return nil, Faultf(p.lacking.Cause, "no instance could be made: %s", p.lacking.Detail)
}

// fit makes an instance's memory fresh if another account used it before.
func (p *Pool) fit(i *Instance, account string) (*Instance, *Fault) {
	if p.image == nil {
		return i, nil
	}
	if i.touched && i.account != account && (p.remake || !p.restore(i)) {
		p.mu.Lock()
		p.leave(i)
		p.mu.Unlock()
		i.Close()
		var f *Fault
		if i, f = p.make(); f != nil {
			p.lost()
			return nil, f
		}
	}
	i.account = account
	return i, nil
}

// restore makes an instance's memory fresh, if it can be put back, and counts what that took.
func (p *Pool) restore(i *Instance) bool {
	c, size := &p.restores, uint64(len(p.image.memory))
	timed := c.timed(i.draws >> 32)
	var watch stopwatch
	if timed {
		watch.reset()
	}
	ok := i.restore(p.image)
	took := c.estimate(size)
	if timed {
		took = watch.end()
	}
	if !ok {
		return false
	}
	if timed {
		c.learn(0, size, took, p.learn, p.compared)
	}
	i.owed += took
	i.done[opNone].CPU += took
	return true
}

// lost counts a busy instance out that could not be replaced.
func (p *Pool) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	p.grow()
}

// put takes an instance back after a call. One that faulted, or whose memory
// has grown too much, is closed and replaced.
func (p *Pool) put(i *Instance, faulted bool) {
	if faulted || i.size() > growthMax*int(p.memory) {
		p.discard(i)
		return
	}
	if !p.hot.CompareAndSwap(nil, i) {
		p.mu.Lock()
		p.offer(i)
		p.mu.Unlock()
	} else if p.attention.Load() > 0 {
		p.mu.Lock()
		p.gather()
		p.mu.Unlock()
	}
}

func (p *Pool) discard(i *Instance) {
	p.mu.Lock()
	p.leave(i)
	p.total--
	p.grow()
	p.mu.Unlock()
	i.Close()
}

// offer hands i to who waits longest, keeps it, or closes it with the pool. mu
// is held.
func (p *Pool) offer(i *Instance) {
	if p.closed {
		p.leave(i)
		p.total--
		i.Close()
		return
	}
	if len(p.waiting) == 0 {
		p.free = append(p.free, i)
		return
	}
	p.waiting[0] <- i
	p.waiting = append(p.waiting[:0], p.waiting[1:]...)
	p.attention.Add(-1)
}

// grow makes one more instance in the background when somebody waits or none
// is left. mu is held.
func (p *Pool) grow() {
	if p.growing || p.closed || p.total >= p.limit || (len(p.waiting) == 0 && p.total > 0) {
		return
	}
	p.growing = true
	p.total++
	p.growers.Go(func() {
		i, f := p.make()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.growing = false
		if f == nil {
			p.offer(i)
			p.grow()
			return
		}
		p.total--
		p.lacking = f
		if p.total == 0 { // nobody will come back with one
			for _, w := range p.waiting {
				w <- nil
			}
			p.attention.Add(-int64(len(p.waiting)))
			p.waiting = nil
		}
	})
}

// leave takes over what an instance counted that goes. mu is held.
func (p *Pool) leave(i *Instance) {
	p.done.add(&i.done)
	p.settle(0, i.owed)
	i.done, i.owed = Work{}, 0
}

// Call runs one op on an instance for an account. advance is what Settle is to
// give back. read gets the output frame, which lies in the instance's memory: it is not
// to be kept. What read finds wrong is a fault of the instance.
func (p *Pool) Call(op abi.Op, account string, in []byte, advance time.Duration, read func(frame []byte) *Fault) *Fault {
	i, f := p.take(account)
	if f != nil {
		p.settle(advance, 0)
		return f
	}
	frame, f := p.run(i, op, in, advance)
	if f == nil {
		f = read(frame)
	}
	p.put(i, f != nil)
	return f
}

// run makes a call on an instance and counts what it took, for which an advance was taken.
func (p *Pool) run(i *Instance, op abi.Op, in []byte, advance time.Duration) ([]byte, *Fault) {
	index := opIndex(op)
	c, done := &p.costs[index], &i.done[index]
	first := !i.begun[index] && !p.remake // it touches its memory and code for the first time
	i.begun[index] = true
	i.draws = i.draws*6364136223846793005 + 1442695040888963407
	timed := c.timed(i.draws >> 32)
	if timed {
		i.linear.watch.reset()
	}
	frame, f := i.run(op, index, in)
	var took time.Duration
	if timed {
		took = i.linear.watch.end()
		if !first {
			c.learn(len(in), i.ticks, took, p.learn, p.compared)
		}
	} else {
		took = c.estimate(i.ticks)
	}
	done.CPU += took
	if i.owed += took; advance > 0 || i.owed >= oweMax {
		p.settle(advance, i.owed)
		i.owed = 0
	}
	if took >= costSlow { // it is mostly busy then, and nobody else sees what a busy one counts
		p.mu.Lock()
		p.done.add(&i.done)
		p.mu.Unlock()
		i.done = Work{}
	}
	return frame, f
}

// Usual is what a call of an operation takes as a rule.
func (p *Pool) Usual(op abi.Op) Usual { return p.costs[opIndex(op)].usual() }

// Mean is the processor time of a call.
func (p *Pool) Mean(op abi.Op) time.Duration { return time.Duration(p.costs[opIndex(op)].mean.Load()) }

// Use is how a pool is used now.
type Use struct {
	Work
	Instances, Busy int
	MemoryBytes     int64 // of all instances
}

// Use counts the calls of busy instances when they are given back.
func (p *Pool) Use() Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gather()
	u := Use{Work: p.done, Instances: p.total, Busy: p.total - len(p.free)}
	if p.growing {
		u.Busy--
	}
	u.MemoryBytes = int64(p.total-len(p.free)) * int64(p.memory)
	for _, i := range p.free {
		u.add(&i.done)
		u.MemoryBytes += int64(i.size())
	}
	return u
}

// Calls are the calls so far.
func (p *Pool) Calls() uint64 {
	u := p.Use()
	return u.Total().Calls
}

// Trim leaves one idle instance, for a module that is only kept.
func (p *Pool) Trim() {
	p.mu.Lock()
	p.gather()
	var idle []*Instance
	if len(p.free) > 1 {
		idle = append(idle, p.free[1:]...)
		clear(p.free[1:])
		p.free = p.free[:1]
		p.total -= len(idle)
		for _, i := range idle {
			p.leave(i)
		}
	}
	p.mu.Unlock()
	for _, i := range idle {
		i.Close()
	}
}

// Close closes every instance. No call may be running.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.attention.Add(1) // whoever comes late with one brings it to offer
	p.gather()
	free := p.free
	p.free = nil
	p.total -= len(free)
	for _, i := range free {
		p.leave(i)
	}
	p.mu.Unlock()
	for _, i := range free {
		i.Close()
	}
	p.growers.Wait()
}
