//go:build invariants

package kv

// checkPages is the size of a pool that is checked after every call. Of a pool k times
// as large every k-th call is checked, so that a check costs as much per call.
const checkPages = 64

// checks counts the calls since the latest check.
type checks struct{ calls int }

// check panics when an invariant of the pool does not hold.
func (p *Pool) check() {
	if p.checks.calls++; p.checks.calls*checkPages < p.config.Pages {
		return
	}
	p.checks.calls = 0
	if err := p.Check(); err != nil {
		panic(err.Error())
	}
}
