package batcher

import (
	"testing"

	"corenode/engine"
	"corenode/wasm/abi"
)

type nobody struct{ refused *abi.Error }

func (n *nobody) Job() *engine.Job       { return nil }
func (n *nobody) Gone() bool             { return true }
func (n *nobody) Accepted(uint64)        {}
func (n *nobody) Refused(err *abi.Error) { n.refused = err }

// TestInbox: jobs are bounded, what gives back is not; a closed inbox takes
// nothing and returns what it had.
func TestInbox(t *testing.T) {
	q := newInbox(2)
	job, release := control{ticket: &nobody{}}, control{release: &Pin{}}
	for i, c := range []struct {
		c    control
		want bool
	}{{job, true}, {release, true}, {job, true}, {job, false}, {release, true}} {
		if got := q.put(c.c); got != c.want {
			t.Errorf("item %d: %v", i, got)
		}
	}
	got, closed := q.drain(nil)
	if len(got) != 4 || closed || q.len() != 0 {
		t.Errorf("drained %d, closed %v, %d jobs left", len(got), closed, q.len())
	}
	q.put(job)
	if left := q.close(); len(left) != 1 || q.put(job) || q.put(release) {
		t.Errorf("%d items left at the close, or taken after it", len(left))
	}
	if _, closed := q.drain(nil); !closed {
		t.Error("the loop is not told")
	}
}

// TestGone: a job that nobody waits for is not submitted.
func TestGone(t *testing.T) {
	n := &nobody{}
	l := &loop{unit: NewUnit(Config{})} // without a stepper: a Submit would panic
	l.submit(n)
	if n.refused == nil || n.refused.Kind != abi.Canceled {
		t.Errorf("refused with %v", n.refused)
	}
}
