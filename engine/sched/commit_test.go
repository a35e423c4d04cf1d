package sched

import "testing"

// TestDecodingHasOneSnapshot: the snapshot that decoding moves along takes the place of none but its own.
func TestDecodingHasOneSnapshot(t *testing.T) {
	b := newBench(t, 100, 8, func(c *Config) { c.DecodeSnapshotTokens = 64 })
	other := b.seq("other", 40, 1)
	other.SnapshotAt = []int{40}
	if _, err := b.s.Add(other, b.now); err != nil {
		t.Fatal(err)
	}
	b.until(5, ended(other))
	for q := b.add("a", 20, 640); !ended(q)(); {
		b.step()
		if st := b.s.pool.Stats(); st.Snapshots > 2 {
			t.Fatalf("behind %d tokens there are %d snapshots", len(q.Tokens), st.Snapshots)
		}
	}
	if q := b.again("other", 0, other.Tokens, 60, 1); q.Cached != 32 || b.s.pool.Stats().Snapshots != 2 {
		t.Errorf("%d tokens of the other prompt are cached; %+v", q.Cached, b.s.pool.Stats())
	}
}
