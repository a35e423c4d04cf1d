package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestStepTokensMax: the rows of the streams are within the bound of a step, too, where a chunk is as large.
func TestStepTokensMax(t *testing.T) {
	b := newBench(t, 400, 0, func(c *Config) { c.StepTokensMax, c.ChunkTokens, c.SequencesMax = 128, 128, 8 })
	var last *Sequence
	for range 4 {
		last = b.add("a", 20, 100)
	}
	b.until(10, started(last))
	for q := b.add("b", 500, 1); !ended(q)(); {
		b.step()
		if rows := b.s.plan.Rows; rows > 128 {
			t.Fatalf("a step has %d rows", rows)
		}
	}
}

// TestPreemptedPromptsGetNoRows: a prompt that loses its place for one before it in the same plan is left out of it.
func TestPreemptedPromptsGetNoRows(t *testing.T) {
	b := newBench(t, 230, 0, func(c *Config) { c.SequencesMax, c.FairWait = 10, time.Hour })
	for range 8 {
		b.add("a", 16, 400)
	}
	for range 3 {
		b.step()
	}
	b.add("a", 3200, 1) // it needs most pages for itself
	b.add("a", 16, 1)
	for range 60 {
		b.step()
	}
	if n := b.s.Stats().Preempted; n < 2 {
		t.Errorf("%d are preempted: the test shows nothing", n)
	}
}

// TestPassedOverPromptsGoFirst: an account that was served more than all others gets a piece of its prompt, after
// skippedMax plans that gave it none.
func TestPassedOverPromptsGoFirst(t *testing.T) {
	b := newBench(t, 4000, 0, nil)
	b.add("stream", 5, 1000) // so that a newcomer takes the whole chunk
	long := b.add("long", 20_000, 1)
	b.until(100, func() bool { return long.Computed() >= 4*quantum })
	skipped, most := 0, 0
	for range 5 * skippedMax {
		b.add(fmt.Sprint("newcomer", b.ids), 64, 1)
		skipped++
		if slices.ContainsFunc(b.step(), func(it Item) bool { return it.Seq == long }) {
			skipped = 0
		}
		most = max(most, skipped)
	}
	if most != skippedMax {
		t.Errorf("passed over by %d plans in a row, want %d", most, skippedMax)
	}
}
