package extensions

import (
	"sync"
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

	mu      sync.Mutex
	free    []*instance      // the last one given back is taken first
	waiting []chan *instance // oldest first, each with room for one; at most waitersMax
	total   int              // instances that live, busy ones and one being made included
	busy    int
	growing bool // one is being made in the background
	closed  bool
	done    counters
}

const (
	waitMax    = 2 * time.Second // for an instance
	waitersMax = 4096
	growthMax  = 4 // times its first memory: an instance that holds more is replaced
)

// take lends an instance whose memory holds nothing of another account.
func (p *pool) take(account string) (*instance, *fault) {
	p.mu.Lock()
	i := p.pick(account)
	if i == nil {
		if len(p.waiting) >= waitersMax {
			p.mu.Unlock()
			return nil, faultf(causeOverloaded, "%d calls wait for an instance", waitersMax)
		}
		w := make(chan *instance, 1)
		p.waiting = append(p.waiting, w)
		p.grow()
		p.mu.Unlock()
		var f *fault
		if i, f = p.wait(w); f != nil {
			return nil, f
		}
	} else {
		p.mu.Unlock()
	}
	return p.fit(i, account)
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
	p.busy++
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
	p.busy--
	p.grow()
}

// work is what one call did, for the counters.
type work struct {
	ticks   int64
	in, out int
	cpu     time.Duration
}

// put takes an instance back after a call. One that faulted, or whose memory
// has grown too much, is closed and replaced.
func (p *pool) put(i *instance, w work, faulted bool) {
	bad := faulted || i.memory.Size() > growthMax*p.memory
	p.mu.Lock()
	p.done.calls++
	p.done.ticks += uint64(max(w.ticks, 0))
	p.done.bytesIn += uint64(w.in)
	p.done.bytesOut += uint64(w.out)
	p.done.cpu += w.cpu
	p.busy--
	if bad || p.closed {
		p.total--
		p.grow()
		p.mu.Unlock()
		i.close()
		return
	}
	p.offer(i)
	p.mu.Unlock()
}

// offer hands i to who waits longest, or keeps it. mu is held.
func (p *pool) offer(i *instance) {
	if len(p.waiting) == 0 {
		p.free = append(p.free, i)
		return
	}
	p.busy++
	p.waiting[0] <- i
	p.waiting = append(p.waiting[:0], p.waiting[1:]...)
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
		switch {
		case f != nil:
			p.total--
			if p.total == 0 { // nobody will come back with one
				for _, w := range p.waiting {
					w <- nil
				}
				p.waiting = nil
			}
		case p.closed:
			p.total--
			i.close()
		default:
			p.offer(i)
			p.grow()
		}
	})
}

// call runs one op on an instance.
func (p *pool) call(op abi.Op, account string, in []byte, budget int64, dst []byte) (out []byte, f *fault) {
	i, f := p.take(account)
	if f != nil {
		return dst, f
	}
	before := len(dst)
	var w work
	var began time.Time
	timed := i.calls%cpuSample == 0
	if timed {
		began = time.Now()
	}
	i.calls++
	out, w.ticks, f = i.run(op, in, budget, dst)
	w.in, w.out = len(in), len(out)-before
	if timed {
		w.cpu = cpuSample * time.Since(began)
	}
	p.put(i, w, f != nil)
	return out, f
}

// use is how a pool is used now.
type use struct {
	counters
	instances, busy int
	memory          int64
}

func (p *pool) use() use {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := use{counters: p.done, instances: p.total, busy: p.busy, memory: int64(p.total-len(p.free)) * int64(p.memory)}
	for _, i := range p.free {
		u.memory += int64(i.memory.Size())
	}
	return u
}

func (p *pool) calls() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done.calls
}

// trim leaves one idle instance, for a generation that is only kept.
func (p *pool) trim() {
	p.mu.Lock()
	var idle []*instance
	if len(p.free) > 1 {
		idle = append(idle, p.free[1:]...)
		clear(p.free[1:])
		p.free = p.free[:1]
		p.total -= len(idle)
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
	free := p.free
	p.free = nil
	p.total -= len(free)
	p.mu.Unlock()
	for _, i := range free {
		i.close()
	}
	p.growers.Wait()
}
