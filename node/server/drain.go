package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"corenode/wasm/abi"
)

// register counts the request among those that a drain waits for. It returns
// false when the node is draining. Counting comes first, so a drain that saw no
// request missed none.
func (x *exchange) register() bool {
	x.s.requests.add()
	x.registered = true
	return !x.s.Draining()
}

// requestCount counts the authenticated requests between their headers and their
// end: those that a drain waits for.
type requestCount struct {
	mu   sync.Mutex
	n    int           // Guarded by mu
	idle chan struct{} // Guarded by mu; made by who waits, closed when n falls to 0
}

func (r *requestCount) add() {
	r.mu.Lock()
	r.n++
	r.mu.Unlock()
}

func (r *requestCount) done() {
	r.mu.Lock()
	if r.n--; r.n == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
	r.mu.Unlock()
}

func (r *requestCount) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// wait returns true when there was a moment without requests, false when ctx
// ended first.
func (r *requestCount) wait(ctx context.Context) bool {
	r.mu.Lock()
	if r.n == 0 {
		r.mu.Unlock()
		return true
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// Draining says whether a drain has begun.
func (s *Server) Draining() bool { return s.draining.Load() }

// Leave says that the node is not ready, as when it drains, and serves as before: who sends it requests may look before a drain.
func (s *Server) Leave() { s.leaving.Store(true) }

// leaves says whether the node drains, or will.
func (s *Server) leaves() bool { return s.leaving.Load() || s.Draining() }

// Drain ends service in order: not ready and new work refused at once; streams
// finish until ctx ends; those that remain get the protocol's error, whether
// they answer or still read their body; then the public listener closes. It
// returns when every connection is done, or with an error when some would not
// end within DrainGrace after ctx.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	if !s.requests.wait(ctx) {
		s.abortAll()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainGrace)
	defer cancel()
	if !s.requests.wait(grace) {
		return fmt.Errorf("drain: %d requests did not end within %s of the deadline", s.requests.count(), s.cfg.DrainGrace)
	}
	if err := s.conns.shut(grace, s.public); err != nil {
		return fmt.Errorf("drain: close connections: %w", err)
	}
	return nil
}

// abortAll makes every request in flight fail with errDraining, also those whose
// writer waits for a slow reader, and those whose body is slow to come.
func (s *Server) abortAll() {
	s.abortOnce.Do(func() {
		s.end()
		s.conns.hurry(lingerTimeout)
	})
}

// aborted says whether abortAll was called.
func (s *Server) aborted() bool {
	select {
	case <-s.life.Done():
		return true
	default:
		return false
	}
}

// errDraining refuses new work of a node that is about to stop. Another one, or
// this one restarted, takes it.
func errDraining() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Msg: "the node is shutting down; retry", RetryAfter: drainRetryAfter}
}

const drainRetryAfter = 5 * time.Second
