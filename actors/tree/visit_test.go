package tree

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/batcher"
)

// TestVisit: a visit runs on the step loop; one whose caller gave up does not run later, and
// one that panics tells its caller.
func TestVisit(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		seen := 0
		if err := w.tree.Visit(t.Context(), "one", func(s batcher.Stepper) {
			if _, ok := s.(*fakeStepper); ok {
				seen++
			}
		}); err != nil || seen != 1 {
			t.Errorf("%d visits, %v", seen, err)
		}
		if err := w.tree.Visit(t.Context(), "nobody", func(batcher.Stepper) {}); err == nil {
			t.Error("a model that is not served was visited")
		}
		gate := make(chan struct{})
		go func() { _ = w.tree.Visit(context.Background(), "one", func(batcher.Stepper) { <-gate }) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.tree.Visit(ctx, "one", func(batcher.Stepper) { seen++ }); err == nil {
			t.Error("a visit that could not begin has no error")
		}
		close(gate)
		synctest.Wait()
		if seen != 1 {
			t.Error("a visit that was given up ran")
		}
		if err := w.tree.Visit(t.Context(), "one", func(batcher.Stepper) { panic("planned") }); err == nil {
			t.Error("a visit that panicked has no error")
		}
	})
}
