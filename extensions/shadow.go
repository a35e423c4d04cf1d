package extensions

import (
	"bytes"
	"sync"
	"sync/atomic"

	"corenode/wasm/abi"
)

// shadow runs a share of a slot's calls on a second generation as well, off
// the path of the requests, and compares the bytes. It has one worker and a
// bounded queue; what does not fit is dropped and counted.
type shadow struct {
	generation *generation
	percent    int
	failed     func(g *generation, op abi.Op, account string, f *fault)
	queue      chan shadowJob
	queued     atomic.Int64 // bytes
	worker     sync.WaitGroup
	mu         sync.RWMutex // Guards stopped against offers
	stopped    bool
}

// shadowJob is one call to be repeated. It owns its bytes.
type shadowJob struct {
	op      abi.Op
	account string
	in, out []byte
}

const (
	shadowJobsMax  = 64
	shadowBytesMax = 16 << 20 // of all queued jobs
)

// startShadow begins to shadow with g, which is not retired. The worker is one
// of its users.
func startShadow(g *generation, percent int, failed func(*generation, abi.Op, string, *fault)) *shadow {
	g.acquire()
	s := &shadow{generation: g, percent: percent, failed: failed, queue: make(chan shadowJob, shadowJobsMax)}
	s.worker.Go(s.work)
	return s
}

// offer queues the repetition of a call that gave out, or drops it.
func (s *shadow) offer(op abi.Op, account string, in, out []byte) {
	n := int64(len(in) + len(out))
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.stopped {
		return
	}
	if s.queued.Add(n) > shadowBytesMax {
		s.drop(n)
		return
	}
	select {
	case s.queue <- shadowJob{op: op, account: account, in: bytes.Clone(in), out: bytes.Clone(out)}:
	default:
		s.drop(n)
	}
}

func (s *shadow) drop(n int64) {
	s.queued.Add(-n)
	s.generation.tally.shadowDropped.Add(1)
}

func (s *shadow) work() {
	defer s.generation.release()
	var out []byte
	for job := range s.queue {
		s.queued.Add(-int64(len(job.in) + len(job.out)))
		held, _, ok := s.generation.turn(job.op, 0)
		if !ok { // requests come first
			s.generation.tally.shadowDropped.Add(1)
			continue
		}
		var f *fault
		out, f = s.generation.do(job.op, job.account, job.in, held, out[:0])
		t := &s.generation.tally
		t.shadowRuns.Add(1)
		if f != nil || !bytes.Equal(out, job.out) {
			t.shadowMismatches.Add(1)
		}
		if f != nil {
			f.input = len(job.in)
			s.failed(s.generation, job.op, job.account, f)
		}
		if cap(out) > scratchKeep {
			out = nil
		}
	}
}

// stop ends the shadow and waits for its worker.
func (s *shadow) stop() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.queue)
	}
	s.mu.Unlock()
	s.worker.Wait()
}
