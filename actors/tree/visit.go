package tree

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"corenode/actors/batcher"
)

// errLoopGone is what a visit gets that no step loop will run.
var errLoopGone = errors.New("the model is down or restarting")

// Visit runs do on the step loop of a model, between two steps, and returns when it has. The
// model's streams wait for it meanwhile. When ctx ends before do began, do will not run.
func (t *Tree) Visit(ctx context.Context, model string, do func(batcher.Stepper)) error {
	m := t.models[model]
	if m == nil {
		return fmt.Errorf("model %q is not served", model)
	}
	var begun atomic.Bool // or given up
	done := make(chan error, 2)
	visit := batcher.Visit{Lost: func() { done <- errLoopGone }, Do: func(s batcher.Stepper) {
		if !begun.CompareAndSwap(false, true) {
			return
		}
		err := errLoopGone // of a panic
		defer func() { done <- err }()
		do(s)
		err = nil
	}}
	if err := m.ref.Tell(visit); err != nil {
		return errLoopGone
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if begun.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	return <-done
}
