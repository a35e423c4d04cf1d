package route

import (
	"testing"
	"time"
)

// TestPaid: what lies in a replica's cache is cheap up to where it was paid, from when somebody left until it is paid too.
func TestPaid(t *testing.T) {
	s := setOf(2)
	prompt := []uint64{1, 2, 3, 4, 5, 16, 7, 8, 9, 10, 11, 12}
	first, second, other := prompt[:4], prompt[:9], append(append([]uint64{}, prompt[:7]...), 101, 102)
	want := func(what, id string, hashes []uint64, paid int, at time.Time) {
		t.Helper()
		if got := s.Paid(id, hashes, at); got != paid {
			t.Errorf("%s: of %d beginnings %d are paid, want %d", what, len(hashes), got, paid)
		}
	}
	want("nobody left", "a", prompt, len(prompt), base)
	s.Billed("a", first, base)
	want("nobody left behind a paid turn", "a", prompt, len(prompt), base)
	s.Unbilled("a", second, base)
	want("somebody left in the next", "a", prompt, 4, base)
	want("the paid one", "a", first, 4, base)
	want("a prompt that parts later", "a", other, 4, base)
	want("another replica", "b", prompt, len(prompt), base)
	want("a replica that is not there", "c", prompt, len(prompt), base)
	s.Billed("a", prompt[:10], base)
	want("it is paid since", "a", prompt, len(prompt), base)
	want("with what parts from it", "a", other, len(other), base)
	s.Unbilled("a", prompt, base)
	want("somebody left in a third turn", "a", prompt, 10, base)
	want("a day later", "a", prompt, len(prompt), base.Add(booksAge))
	s.Forget("a")
	want("its cache is gone", "a", prompt, len(prompt), base)
	s.Unbilled("a", prompt, base)
	want("somebody left after that, and nobody had paid", "a", prompt, 0, base)
}
