package upstream

import (
	"sync"
	"time"

	"corenode/engine"
	"corenode/wasm/abi"
)

// acceptWait is how long a stream waits, before its headers leave, for the replica to take
// the request: so long a refusal is a status, and later an event. It is short, since until
// then nobody watches whether the client has left.
const acceptWait = 100 * time.Millisecond

// Stepper gives jobs to relays and collects them again. One goroutine calls it: the step
// loop of package batcher, which wake makes call Step.
type Stepper struct {
	model *Model
	wake  func()
	live  map[*engine.Job]*relay
	next  chan *relay // unbuffered: to a goroutine whose relay has ended
	// pending is what the step loop has yet to pass on, of what relays have said: Fail and Abort go on with it.
	pending []report
	// back takes a job that no other node answered, on the step loop; nil where there is no own engine.
	back func(j *engine.Job, now time.Time, taken func(*abi.Error))

	mu      sync.Mutex // guards what follows
	reports []report   // at most two of each live relay
}

// report is what a relay says, for the step loop to pass on.
type report struct {
	relay *relay
	kind  reportKind
	err   *abi.Error // of relayRefused
	first bool       // of relayBack: nobody was told whether the request was taken
}

type reportKind uint8

const (
	relayTaken   reportKind = iota // the request was taken
	relayRefused                   // it was not. The relay has ended
	relayEnded                     // with its result, behind relayTaken
	relayBack                      // it has ended, and the own engine is to answer
)

// NewStepper makes a stepper. wake may be called from any goroutine, and must not block.
func (m *Model) NewStepper(wake func()) *Stepper {
	return &Stepper{model: m, wake: wake, live: map[*engine.Job]*relay{}, next: make(chan *relay)}
}

// Submit takes a job. taken is called once: with nil when a replica has the request or the
// wait for one is over, or with why it was refused; then Finished is not called. A job that
// does not stream is taken at once: its status waits for its end anyway.
func (s *Stepper) Submit(j *engine.Job, now time.Time, taken func(*abi.Error)) {
	s.submit(j, now, taken, place{})
}

// submit gives a job to a relay, for a replica that was chosen unless that is none.
func (s *Stepper) submit(j *engine.Job, now time.Time, taken func(*abi.Error), chosen place) {
	r := newRelay(s, j, now, taken)
	r.chosen = chosen
	j.OnCancel(func() { r.stop(nil) })
	if !j.Request.Stream {
		r.told = true
		taken(nil)
	}
	select {
	case s.next <- r:
	default:
		go s.run(r)
	}
	s.live[j] = r // it runs: who waits for its end does so in vain otherwise
}

// relayIdle is how long a goroutine waits for its next relay.
const relayIdle = 5 * time.Second

// run runs a relay, and those that come soon after it: a goroutine's stack grows to what a
// relay needs by being copied, which costs as much as reading a short answer.
func (s *Stepper) run(r *relay) {
	idle := time.NewTimer(relayIdle)
	defer idle.Stop()
	for {
		r.run()
		idle.Reset(relayIdle)
		select {
		case r = <-s.next:
		case <-idle.C:
			return
		}
	}
}

// Step passes on what relays said. It never has more to do by itself, and does not look at those that go on: a job that is
// cancelled stops its relay itself.
func (s *Stepper) Step(time.Time) bool {
	s.collect()
	return false
}

// collect passes on what relays said, in its order. Each is taken off before: where one panics, the next collect goes on
// behind it.
func (s *Stepper) collect() {
	s.mu.Lock()
	s.pending = append(s.pending, s.reports...)
	s.reports = nil
	s.mu.Unlock()
	for len(s.pending) > 0 {
		p := s.pending[0]
		s.pending = s.pending[1:]
		r := p.relay
		if p.kind != relayTaken {
			delete(s.live, r.job)
		}
		switch p.kind {
		case relayTaken, relayRefused:
			r.taken(p.err)
		case relayEnded:
			r.job.Finished(r.result)
		case relayBack:
			s.takeBack(r, p.first)
		}
	}
	s.pending = nil // with the relays that have ended
}

// takeBack gives the job of a relay to the own engine. One that was promised an answer and is
// refused now ends with the refusal. What the other node was asked, and how long, is of the job's result: the time is
// one in which it waited.
func (s *Stepper) takeBack(r *relay, untold bool) {
	r.job.TakenBack()
	now, finished := time.Now(), r.job.Finished
	r.job.Finished = func(res engine.Result) {
		res.Attempts = r.result.Attempts
		res.Queue += now.Sub(r.submitted)
		finished(res)
	}
	s.back(r.job, now, func(err *abi.Error) {
		if untold {
			r.taken(r.tried(err))
		} else if err != nil {
			r.job.Output.Push(abi.Event{Kind: abi.EventError, Err: err})
			r.job.Finished(engine.Result{Err: err})
		}
	})
}

// NextDeadline says that Step need not be called before wake asks for it.
func (s *Stepper) NextDeadline() (time.Time, bool) { return time.Time{}, false }

// Release does nothing: the replicas keep their caches themselves.
func (s *Stepper) Release(engine.Handle) {}

// Abort ends every job with err and waits for their relays, whose connections are closed.
func (s *Stepper) Abort(err *abi.Error) {
	s.stop(err)
	s.collect()
}

// stop stops all relays and waits for them: their last reports are there then.
func (s *Stepper) stop(err *abi.Error) {
	relays := make([]*relay, 0, len(s.live))
	for _, r := range s.live {
		r.stop(err)
		relays = append(relays, r)
	}
	for _, r := range relays {
		<-r.done
	}
}

// Fail is Abort for a step loop that panicked. What a server has answered by then stays answered; nothing goes to an own
// engine any more.
func (s *Stepper) Fail(err *abi.Error) {
	s.stop(err)
	s.back = func(_ *engine.Job, _ time.Time, taken func(*abi.Error)) { taken(err) }
	s.collect()
}

// Close stops the relays of a step loop that failed; nobody waits for their jobs any more.
func (s *Stepper) Close() {
	for _, r := range s.live {
		r.stop(nil)
	}
}

// report is told by a relay how it goes on, and says whether that is the first of it. That a request was taken or refused counts
// only then.
func (s *Stepper) report(r *relay, kind reportKind, err *abi.Error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, r.told = !r.told, true
	if first || kind == relayEnded || kind == relayBack {
		s.reports = append(s.reports, report{r, kind, err, first})
		s.wake()
	}
	return first
}
