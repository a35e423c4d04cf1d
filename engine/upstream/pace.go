package upstream

import "time"

// pace is until when the next sign of an answer has to come. Before its first piece that is until
// firstBy of its relay, whatever a server says meanwhile that is no node of ours: it may have promised an
// answer that is still queued.
type pace struct {
	first, stall time.Duration // FirstTimeout and StallTimeout
	pings        bool          // Traits.Pings
	own          bool          // it is a node of ours, with limits of its own: its pings carry an answer from the start, without end
	due          time.Time
	most         time.Time // as far as pings alone take due; zero before the first piece
}

// piece tells of a piece of the answer, which may be of a call that is held back.
func (p *pace) piece(now time.Time) {
	p.due, p.most = now.Add(p.stall), now.Add(max(p.first, p.stall))
}

// ping tells that the server says nothing, but lives: a node that holds a call back until it is
// complete. What it works on may be stuck all the same, so pings alone are no answer for ever.
func (p *pace) ping(now time.Time) {
	next := now.Add(p.stall)
	switch {
	case p.own:
		if next.After(p.due) {
			p.due = next
		}
	case !p.pings || p.most.IsZero():
	case next.After(p.most):
		p.due = p.most
	default:
		p.due = next
	}
}
