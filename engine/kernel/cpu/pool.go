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
	claimBits  = 20   // of the state word, each for the count and the next index
	tasksMax   = 1<<claimBits - 1
)

// pool runs tasks on the caller and on its own locked threads, which claim
// iterations one by one.
//
// state is epoch | count | next. A claim is a compare-and-swap of next, so it
// succeeds only in the epoch it was read in; from then on the task cannot end
// before the claimed iteration does, and p.task may be read. The caller is the
// only writer of task, between two epochs.
type pool struct {
	state  atomic.Uint64
	done   atomic.Int64
	task   task
	epoch  uint64
	failed atomic.Pointer[failure]

	workers int
	parked  atomic.Int32
	wake    chan struct{} // holds at most one token per worker; more are dropped
	closed  atomic.Bool
	exit    sync.WaitGroup
}

// failure is a panic on its way from a worker to the caller.
type failure struct {
	value any
	stack []byte
}

// newPool starts threads-1 workers.
func newPool(threads int) *pool {
	p := &pool{workers: threads - 1, wake: make(chan struct{}, threads)}
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
		panic(fmt.Sprintf("%d iterations in one task, at most %d", n, tasksMax))
	}
	p.task = t
	p.done.Store(0)
	p.epoch = (p.epoch + 1) & (1<<(64-2*claimBits) - 1)
	p.state.Store(p.epoch<<(2*claimBits) | uint64(n)<<claimBits)
	for range p.parked.Load() {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	p.help(0)
	for looks := 0; p.done.Load() < int64(n); looks++ {
		if looks < spinLooks {
			pause(spinPauses)
		} else {
			yieldThread() // the worker may be waiting for this very processor
		}
	}
	p.task = nil
	if f := p.failed.Swap(nil); f != nil {
		panic(fmt.Sprintf("%v\n\non a worker:\n%s", f.value, f.stack))
	}
}

// help claims and runs iterations until none is left.
func (p *pool) help(worker int) {
	for {
		s := p.state.Load()
		next, count := s&tasksMax, s>>claimBits&tasksMax
		if next >= count {
			return
		}
		if p.state.CompareAndSwap(s, s+1) {
			p.call(worker, int(next))
		}
	}
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
	return s&tasksMax < s>>claimBits&tasksMax
}

// work is the life of a worker.
func (p *pool) work(worker int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for looks := 0; !p.closed.Load(); {
		switch {
		case p.pending():
			p.help(worker)
			looks = 0
		case looks < spinLooks:
			pause(spinPauses)
			looks++
		default:
			p.park()
			looks = 0
		}
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
