package server

import "time"

// ObserveGap counts the time between two consecutive tokens of one sequence,
// as the step loop saw it. Any goroutine may call it.
func (s *Server) ObserveGap(d time.Duration) { s.metrics.itl.Update(d.Seconds()) }

// ObserveStep counts one forward pass: its prefill and decode rows and its time.
func (s *Server) ObserveStep(prefill, decode int, took time.Duration) {
	s.metrics.steps.Update(took.Seconds())
	s.metrics.stepRows[0].Add(prefill)
	s.metrics.stepRows[1].Add(decode)
}
