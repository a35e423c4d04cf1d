package extensions

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/extensions/compare"
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// shadow runs a share of a slot's calls on a second generation as well, off
// the path of the requests, and compares the bytes. It has one worker and a
// bounded queue; what does not fit is dropped and counted.
type shadow struct {
	generation *generation
	percent    int
	compared   *compare.Comparison // also g's, which keeps it when the shadow has ended
	failed     func(g *generation, op abi.Op, of caller, f *guest.Fault)
	queue      chan shadowJob
	queued     atomic.Int64 // bytes
	worker     sync.WaitGroup
	mu         sync.RWMutex // Guards stopped against offers
	stopped    bool
}

// shadowJob is one call to be repeated. It owns its bytes.
type shadowJob struct {
	op      abi.Op
	by      *guest.Manifest // of the module that answered
	of      caller
	in, out []byte
	held    []abi.Counter // see scratch
}

const (
	shadowJobsMax  = 64
	shadowBytesMax = 16 << 20 // of all queued jobs
)

// startShadow begins to shadow with g, which is not retired, and to compare
// anew. The worker is one of g's users. failed hears of g's faults.
func startShadow(g *generation, percent int, now time.Time, failed func(*generation, abi.Op, caller, *guest.Fault)) *shadow {
	g.acquire()
	s := &shadow{generation: g, percent: percent, failed: failed, queue: make(chan shadowJob, shadowJobsMax),
		compared: compare.New(now, g.manifest.Free, len(g.manifest.Counters))}
	g.compared.Store(s.compared)
	s.worker.Go(s.work)
	return s
}

// offer queues the repetition of a call that by answered, or drops it.
func (s *shadow) offer(by *generation, op abi.Op, of caller, made *scratch) {
	n := int64(len(made.in) + len(made.out))
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
	case s.queue <- shadowJob{op: op, by: &by.manifest, of: of, in: bytes.Clone(made.in), out: bytes.Clone(made.out),
		held: slices.Clone(made.held)}:
	default:
		s.drop(n)
	}
}

func (s *shadow) drop(n int64) {
	s.queued.Add(-n)
	s.generation.tally.shadowDropped.Add(1)
	s.compared.Drop()
}

func (s *shadow) work() {
	defer s.generation.release()
	var out []byte
	for job := range s.queue {
		s.queued.Add(-int64(len(job.in) + len(job.out)))
		advance, _, ok := s.generation.admit(job.op, 0)
		if !ok { // requests come first
			s.drop(0)
			continue
		}
		var f *guest.Fault
		in := s.recordOf(job)
		out, f = s.generation.do(job.op, job.of, in, advance, out[:0])
		t := &s.generation.tally
		t.shadowRuns.Add(1)
		call := compare.Call{Op: job.op, Account: job.of.account, By: job.by.Ref(), In: in, Old: job.out, New: out}
		if f != nil {
			call.New, call.Fault = nil, f.Cause.String()
		}
		if s.compared.Add(call) {
			t.shadowMismatches.Add(1)
		}
		if f != nil {
			f.Input = len(job.in)
			s.failed(s.generation, job.op, job.of, f)
		}
		if cap(out) > scratchKeep {
			out = nil
		}
	}
}

// recordOf is a job's input as the shadow reads it, which may be of another version than
// the module that answered, and has counters of its own.
func (s *shadow) recordOf(job shadowJob) []byte {
	switch job.op {
	case abi.OpCharge:
		if c, err := abi.ParseChargeInput(job.in); err == nil {
			c.Held = s.generation.manifest.Held(job.held)
			return c.Append(nil)
		}
	case abi.OpDecide:
		if facts, err := abi.ParseAdmissionInput(job.in); err == nil {
			return s.generation.manifest.Record(job.op, facts.Append(nil))
		}
	case abi.OpError:
		if failure, err := abi.ParseErrorInput(job.in); err == nil {
			return s.generation.manifest.Record(job.op, failure.Append(nil))
		}
	}
	return job.in
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
