//go:build !invariants

package limit

// check does nothing: the build tag invariants makes it check.
func (s *State) check() {}
