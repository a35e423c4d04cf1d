package upstream

import (
	"time"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// Engine is the stepper of an engine in this process.
type Engine interface {
	Submit(j *engine.Job, now time.Time, taken func(*abi.Error))
	Step(now time.Time) bool
	NextDeadline() (time.Time, bool)
	Release(h engine.Handle)
	Abort(err *abi.Error)
	Close()
}

// ReplicatedStepper runs the jobs of a model that this node's own engine and those of other nodes have.
// The own one is a replica among others: a job whose prefix lies there, or that has nothing
// of Carry, is its own. So is one that another node did not take or answer, as long as nothing was shown.
type ReplicatedStepper struct {
	*Stepper
	own Engine
}

// NewReplicatedStepper makes the stepper of a model with Options.Own. wake is as in NewStepper. An own
// engine that an operator drained stays so.
func (m *Model) NewReplicatedStepper(wake func(), own Engine) *ReplicatedStepper {
	m.mu.Lock()
	m.set.Remove(m.options.Own) // what an engine before had is gone, and its requests too
	m.set.Add(m.options.Own)
	m.set.Drain(m.options.Own, m.replicas[m.options.Own].drained)
	m.mu.Unlock()
	s := &ReplicatedStepper{Stepper: m.NewStepper(wake), own: own}
	s.Stepper.back = s.submitOwn
	return s
}

// Own is the stepper of the node's own engine.
func (s *ReplicatedStepper) Own() Engine { return s.own }

// Submit implements batcher.Stepper.
func (s *ReplicatedStepper) Submit(j *engine.Job, now time.Time, taken func(*abi.Error)) {
	carried, ok := j.Request.Remote.(*sent)
	if !ok {
		s.submitOwn(j, now, taken)
		return
	}
	m := s.model
	rep := m.choose(wish{key: carried.key(j.Session)}).place // on the own engine, on another node, or none
	switch {
	case rep.replica == nil:
		s.submitOwn(j, now, taken)
	case rep.base == m.options.Own:
		m.request()
		finished := j.Finished
		j.Finished = func(r engine.Result) {
			m.giveBack(rep)
			finished(r)
		}
		s.submitOwn(j, now, func(err *abi.Error) {
			if err != nil {
				m.giveBack(rep, rep.fresh...)
			}
			taken(err)
		})
	default:
		s.submit(j, now, taken, rep)
	}
}

// submitOwn gives a job to the node's own engine, which takes it at once or refuses it. The next turn
// finds its prompt there.
func (s *ReplicatedStepper) submitOwn(j *engine.Job, now time.Time, taken func(*abi.Error)) {
	s.own.Submit(j, now, func(err *abi.Error) {
		if carried, ok := j.Request.Remote.(*sent); ok && err == nil {
			s.model.learnOwn(carried.key(j.Session))
		}
		taken(err)
	})
}

// Step implements batcher.Stepper.
func (s *ReplicatedStepper) Step(now time.Time) bool {
	s.Stepper.Step(now)
	return s.own.Step(now)
}

// NextDeadline implements batcher.Stepper.
func (s *ReplicatedStepper) NextDeadline() (time.Time, bool) { return s.own.NextDeadline() }

// Release implements batcher.Stepper.
func (s *ReplicatedStepper) Release(h engine.Handle) { s.own.Release(h) }

// Abort implements batcher.Stepper.
func (s *ReplicatedStepper) Abort(err *abi.Error) {
	s.Stepper.Abort(err)
	s.own.Abort(err)
}

// Close implements batcher.Stepper.
func (s *ReplicatedStepper) Close() {
	s.Stepper.Close()
	s.own.Close()
}

// Carry makes what takes a request to another node, of one that the own engine has prepared:
// the Remote of its Request. It is nil where no other node is there, or the request cannot go.
func (m *Model) Carry(account string, q *messages.Request, prepared *engine.Request) engine.Remote {
	if q.Raw || !m.othersReady() {
		return nil
	}
	s := m.splices(q)
	s.MaxTokens, s.Signature = prepared.MaxTokens, clusterSignature
	body, err := wire.Splice(q.Body, s)
	if err != nil {
		return nil
	}
	carried := &sent{body: body, stops: q.StopSequences, calls: newCallChecker(q).trusting(), counted: prepared.InputTokens(), exact: true}
	carried.prefixes, carried.places = prefixHashes(account, q)
	return carried
}

// clusterSignature is that of a thinking block for another node: the one which that node, or
// another, made; or this node's, which is made with the secret of all.
func clusterSignature(ours string) string {
	if theirs := theirSignature(ours); theirs != "" {
		return theirs
	}
	return ours
}

// othersReady says whether another node has answered a probe.
func (m *Model) othersReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ready) > 1
}
