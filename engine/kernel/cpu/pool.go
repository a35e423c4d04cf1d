package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// task is a loop whose iterations may run on any thread. worker is in
// [0, threads) and names the scratch memory that the iteration may use.
type task interface{ do(worker, i int) }

// taskFunc is a task made of a function; for work that is rare enough to allocate.
type taskFunc func(worker, i int)

func (f taskFunc) do(worker, i int) { f(worker, i) }

const (
	spinPauses = 4    // pauses between two looks at the state: about 0.1 us
	spinLooks  = 2000 // looks before a worker parks: about 0.2 ms
	claimBits  = 16   // of the state word, each for the count and the next index
	tasksMax   = 1<<claimBits - 1
)

// pool runs tasks on the caller and on its own locked threads, which claim
// iterations one by one.
//
// state is epoch | count | next. A claim is a compare-and-swap of next, so it
// succeeds only in the epoch it was read in; from then on the task cannot end
// before the claimed iteration does, and p.task may be read. The caller is the
// only writer of task, between two epochs.
//
// The first iterations are kept for one thread each, the caller's being 0, so
// that a thread knows beforehand where it will begin; own[w] is the latest
// epoch whose iteration w was claimed. What its thread does not begin in time
// others claim after the rest.
//
// A thread without work first brings what it will begin with to its cache, as
// far as prefetch says; then it waits, at last asleep.
type pool struct {
	state    atomic.Uint64
	own      []paddedEpoch
	prefetch atomic.Pointer[prefetchPlan]
	plan     atomic.Uint32 // number of prefetch
	mine     fetched       // by the caller
	done     atomic.Int64
	task     task
	epoch    uint32
	failed   atomic.Pointer[failure]

	workers int
	parked  atomic.Int32
	wake    chan struct{} // holds at most one token per worker; more are dropped
	closed  atomic.Bool
	exit    sync.WaitGroup
}

// paddedEpoch is an epoch on a cache line of its own.
type paddedEpoch struct {
	atomic.Uint32
	_ [60]byte
}

// failure is a panic on its way from a worker to the caller.
type failure struct {
	value any
	stack []byte
}

// newPool starts threads-1 workers.
func newPool(threads int) *pool { return newPoolAt(0, threads) }

// newPoolAt is newPool with an epoch behind it. Once workers run, epochs only
// grow: one that comes late from a task would take a lower one for unclaimed.
func newPoolAt(epoch uint32, threads int) *pool {
	p := &pool{epoch: epoch, workers: threads - 1, wake: make(chan struct{}, threads), own: make([]paddedEpoch, threads)}
	for w := range p.own {
		p.own[w].Store(epoch)
	}
	for w := range p.workers {
		p.exit.Go(func() { p.work(w + 1) })
	}
	return p
}

// run calls t.do for every i in [0, n) and returns when all are done. A panic
// of an iteration becomes the caller's. Not for concurrent use.
func (p *pool) run(n int, t task) {
	if n <= 1 || p.workers == 0 {
		for i := range n {
			t.do(0, i)
		}
		return
	}
	if n > tasksMax {
		grain := (n + tasksMax - 1) / tasksMax
		p.run((n+grain-1)/grain, taskFunc(func(worker, i int) {
			for k := i * grain; k < min((i+1)*grain, n); k++ {
				t.do(worker, k)
			}
		}))
		return
	}
	p.task = t
	p.done.Store(0)
	p.nextEpoch()
	p.state.Store(uint64(p.epoch)<<(2*claimBits) | uint64(n)<<claimBits | uint64(min(n, len(p.own))))
	for range p.parked.Load() {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	p.call(0, 0)
	p.help(0)
	p.await(int64(n))
	p.task = nil
	if f := p.failed.Swap(nil); f != nil {
		panic(fmt.Sprintf("%v\n\non a worker:\n%s", f.value, f.stack))
	}
}

// setPrefetch says what threads read when they have nothing else to do, from now
// on; nil is nothing.
func (p *pool) setPrefetch(a *prefetchPlan) {
	p.prefetch.Store(a)
	p.plan.Add(1)
}

// nextEpoch begins an epoch with iteration 0 claimed. Now and then it refreshes
// the epochs of workers that tasks were too small for, before they look young.
func (p *pool) nextEpoch() {
	p.epoch++
	if p.epoch%(1<<30) == 0 {
		for w := range p.own {
			p.own[w].Store(p.epoch - 1)
		}
	}
	p.own[0].Store(p.epoch)
}

// await returns when n iterations are done.
func (p *pool) await(n int64) {
	for looks := 0; p.done.Load() < n; looks++ {
		if looks < spinLooks {
			p.idle(0, &p.mine)
		} else {
			yieldThread() // the worker may be waiting for this very processor
		}
	}
}

// help claims and runs iterations until none is left: the worker's own one
// first, those of workers that have not come last.
func (p *pool) help(worker int) {
	for {
		s := p.state.Load()
		next, count, epoch := int(s&tasksMax), int(s>>claimBits&tasksMax), uint32(s>>(2*claimBits))
		switch {
		case worker < count && p.claimOwn(worker, epoch):
			p.call(worker, worker)
		case next < count:
			if p.state.CompareAndSwap(s, s+1) {
				p.call(worker, next)
			}
		default:
			for w := range min(count, len(p.own)) {
				if p.claimOwn(w, epoch) {
					p.call(worker, w)
				}
			}
			return
		}
	}
}

// claimOwn claims the iteration of an epoch that is kept for worker w. It
// fails when another thread was faster or the epoch has passed: own only grows
// (which the difference says across the wrap), and an epoch does not end before
// all of it are claimed.
func (p *pool) claimOwn(w int, epoch uint32) bool {
	seen := p.own[w].Load()
	return int32(epoch-seen) > 0 && p.own[w].CompareAndSwap(seen, epoch)
}

// call runs one claimed iteration and counts it even if it panics.
func (p *pool) call(worker, i int) {
	defer func() {
		if r := recover(); r != nil {
			buf := make([]byte, 8192)
			p.failed.Store(&failure{r, buf[:runtime.Stack(buf, false)]})
		}
		p.done.Add(1)
	}()
	p.task.do(worker, i)
}

// pending says whether an iteration waits to be claimed.
func (p *pool) pending() bool {
	s := p.state.Load()
	next, count, epoch := int(s&tasksMax), int(s>>claimBits&tasksMax), uint32(s>>(2*claimBits))
	if next < count {
		return true
	}
	for w := range min(count, len(p.own)) {
		if int32(epoch-p.own[w].Load()) > 0 {
			return true
		}
	}
	return false
}

// work is the life of a worker.
func (p *pool) work(worker int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c fetched
	for looks := 0; !p.closed.Load(); {
		switch {
		case p.pending():
			p.help(worker)
			looks = 0
		case looks < spinLooks:
			p.idle(worker, &c)
			looks++
		default:
			p.park()
			looks = 0
		}
	}
}

// idle passes a moment: by prefetching while there is something to fetch, else waiting.
func (p *pool) idle(worker int, c *fetched) {
	if plan := p.plan.Load(); c.plan != plan {
		*c = fetched{plan: plan}
	}
	if a := p.prefetch.Load(); a == nil || !a.fetch(worker, c) {
		pause(spinPauses)
	}
}

// park sleeps until run or close wakes it. The second look at pending comes
// after parked is raised, and run stores the state before it reads parked: one
// of the two sees the other.
func (p *pool) park() {
	p.parked.Add(1)
	defer p.parked.Add(-1)
	if !p.pending() && !p.closed.Load() {
		<-p.wake
	}
}

// close stops the workers and waits for them.
func (p *pool) close() {
	if !p.closed.Swap(true) {
		close(p.wake)
		p.exit.Wait()
	}
}
