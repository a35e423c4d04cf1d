//go:build !invariants

package limiter

// check does nothing: the build tag invariants makes it check.
func (s *state) check() {}
