package upstream

import (
	"time"

	"corenode/wasm/abi"
)

// Who leaves before the first content pays nothing, since a replica does not say how far the prompt was
// computed. Yet it fills the replica's cache. So it is remembered up to where the account had paid the
// prompt there, and behind that the next one finds nothing cheap.

// account notes, of an attempt on a replica that has its prompt, whether that is paid.
func (r *relay) account(p *replica, o *outcome) {
	m, now := r.model, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.replicas[p.base] != p: // it was removed meanwhile; another one may be there now
	case o == nil || r.pays():
		m.set.Billed(p.base, r.sent.prefixes, now)
	case r.asked:
		m.set.Unbilled(p.base, r.sent.prefixes, now)
	}
	r.asked = r.asked && r.left()
}

// pays says whether the prompt of an attempt without a whole answer is paid: see observed.
func (r *relay) pays() bool {
	if r.left() {
		return r.reader.Delivered() > 0
	}
	return r.content && r.job.Request.Stream
}

// left says whether the client has, or else who cancelled the job.
func (r *relay) left() bool { return r.ctx.Err() != nil && r.stopped().Kind == abi.Canceled }

// unpaid is how many tokens of the prompt a replica may have cached since somebody left: from where
// the account had paid it to the end. The place is known in bytes, and taken for as large a share of tokens.
func (m *Model) unpaid(base string, s *sent) int64 {
	m.mu.Lock()
	n := m.set.Paid(base, s.prefixes, time.Now())
	m.mu.Unlock()
	switch {
	case n == len(s.prefixes):
		return 0
	case n == 0:
		return int64(s.counted)
	}
	all := s.places[len(s.places)-1]
	return int64(s.counted) - int64(s.counted)*int64(s.places[n-1])/int64(all)
}
