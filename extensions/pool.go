package extensions

import (
	"sync"
	"sync/atomic"
	"time"

	"corenode/wasm/abi"
)

// pool lends the instances of one generation, each for one call. It begins
// with one, makes another whenever a caller has to wait, up to limit, and makes
// new ones for those that faulted.
type pool struct {
	make    func() (*instance, *fault)
	limit   int
	image   *image // restored before another account's call; nil when memory may be shared between accounts
	remake  bool   // an image cannot hold all state: another account's call takes a new instance
	memory  uint32 // bytes of an instance that was just made
	growers sync.WaitGroup

	// hot is one free instance, the last one given back: where calls do not
	// overlap it goes out and in without the lock. Whoever gives it back looks at
	// attention afterwards, and whoever raises attention looks at hot afterwards,
	// so that no instance lies here while somebody waits for it.
	hot       atomic.Pointer[instance]
	attention atomic.Int64 // callers that look for an instance or wait for one

	mu      sync.Mutex
	free    []*instance      // other free ones; the last one given back is taken first
	waiting []chan *instance // oldest first, each with room for one; at most waitersMax
	total   int              // instances that live, busy ones and one being made included
	growing bool             // one is being made in the background
	closed  bool
	done    work // without what the instances hold themselves

	throttle *throttle // of its slot
	costs    [len(opsCounted)]cost
	learn    uint64 // calls of each operation that are timed first
	compared uint64 // the least calls of which a canary is compared
}

const (
	waitMax    = 2 * time.Second // for an instance
	waitersMax = 4096
	growthMax  = 4 // times its first memory: an instance that holds more is replaced
)

// take lends an instance whose memory holds nothing of another account.
func (p *pool) take(account string) (*instance, *fault) {
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
func (p *pool) search(account string) (*instance, *fault) {
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
		return nil, faultf(causeOverloaded, "%d calls wait for an instance", waitersMax)
	}
	w := make(chan *instance, 1)
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
func (p *pool) gather() {
	if i := p.hot.Swap(nil); i != nil {
		p.offer(i)
	}
}

// pick takes a free instance, one that served this account last if there is.
// mu is held.
func (p *pool) pick(account string) *instance {
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

func (p *pool) wait(w chan *instance) (*instance, *fault) {
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case i := <-w:
		return given(i)
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
		return given(i)
	default:
		return nil, faultf(causeOverloaded, "all %d instances were busy for %v", p.limit, waitMax)
	}
}

func given(i *instance) (*instance, *fault) {
	if i == nil {
		return nil, faultf(causeInstantiate, "no instance could be made")
	}
	return i, nil
}

// fit makes an instance's memory fresh if another account used it before.
func (p *pool) fit(i *instance, account string) (*instance, *fault) {
	if p.image == nil {
		return i, nil
	}
	if i.touched && i.account != account && (p.remake || !i.restore(p.image)) {
		p.mu.Lock()
		p.leave(i)
		p.mu.Unlock()
		i.close()
		var f *fault
		if i, f = p.make(); f != nil {
			p.lost()
			return nil, f
		}
	}
	i.account = account
	return i, nil
}

// lost counts a busy instance out that could not be replaced.
func (p *pool) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	p.grow()
}

// put takes an instance back after a call. One that faulted, or whose memory
// has grown too much, is closed and replaced.
func (p *pool) put(i *instance, faulted bool) {
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

func (p *pool) discard(i *instance) {
	p.mu.Lock()
	p.leave(i)
	p.total--
	p.grow()
	p.mu.Unlock()
	i.close()
}

// offer hands i to who waits longest, keeps it, or closes it with the pool. mu
// is held.
func (p *pool) offer(i *instance) {
	if p.closed {
		p.leave(i)
		p.total--
		i.close()
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
func (p *pool) grow() {
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
func (p *pool) leave(i *instance) {
	p.done.add(&i.done)
	p.throttle.settle(0, i.owed)
	i.done, i.owed = work{}, 0
}

// call runs one op on an instance and appends the output frame to dst. held is
// what the slot's share holds for it.
func (p *pool) call(op abi.Op, account string, in []byte, budget int64, held time.Duration, dst []byte) (out []byte, f *fault) {
	i, f := p.take(account)
	if f != nil {
		p.throttle.settle(held, 0)
		return dst, f
	}
	frame, f := p.run(i, op, in, budget, held)
	if f == nil {
		dst = append(dst, frame...)
	}
	p.put(i, f != nil)
	return dst, f
}

// run makes a call on an instance and takes what it took from the slot's share,
// which holds held for it.
func (p *pool) run(i *instance, op abi.Op, in []byte, budget int64, held time.Duration) ([]byte, *fault) {
	index := opIndex(op)
	c, done := &p.costs[index], &i.done[index]
	first := done.calls == 0 && !p.remake // it touches its memory and code for the first time
	i.draws = i.draws*6364136223846793005 + 1442695040888963407
	timed := c.timed(i.draws >> 32)
	if timed {
		i.linear.watch.reset()
	}
	frame, f := i.run(op, in, budget)
	var took time.Duration
	if timed {
		took = i.linear.watch.end()
		if !first {
			c.learn(len(in), i.ticks, took, p.learn, p.compared)
		}
	} else {
		took = c.estimate(i.ticks)
	}
	done.cpu += took
	if i.owed += took; held > 0 || i.owed >= oweMax {
		p.throttle.settle(held, i.owed)
		i.owed = 0
	}
	return frame, f
}

// mean is the processor time of a call.
func (p *pool) mean(op abi.Op) time.Duration { return time.Duration(p.costs[opIndex(op)].mean.Load()) }

// use is how a pool is used now.
type use struct {
	work
	instances, busy int
	memory          int64
}

// use counts the calls of busy instances when they are given back.
func (p *pool) use() use {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gather()
	u := use{work: p.done, instances: p.total, busy: p.total - len(p.free)}
	if p.growing {
		u.busy--
	}
	u.memory = int64(p.total-len(p.free)) * int64(p.memory)
	for _, i := range p.free {
		u.add(&i.done)
		u.memory += int64(i.size())
	}
	return u
}

func (p *pool) calls() uint64 {
	u := p.use()
	return u.total().calls
}

// trim leaves one idle instance, for a generation that is only kept.
func (p *pool) trim() {
	p.mu.Lock()
	p.gather()
	var idle []*instance
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
		i.close()
	}
}

// close closes every instance. No call may be running.
func (p *pool) close() {
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
		i.close()
	}
	p.growers.Wait()
}
