package main

import (
	"context"
	"time"

	"corenode/actors/batcher"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/engine/upstream"
	"corenode/wasm/abi"
)

// readerPoll is how often a step loop looks whether the readers of jobs that wait for them
// have caught up.
const readerPoll = 5 * time.Millisecond

// visitEngine runs do on the step loop of a model of this node's own.
func (n *node) visitEngine(ctx context.Context, model string, do func(*engine.Stepper)) error {
	return n.tree.Visit(ctx, model, func(s batcher.Stepper) {
		switch s := s.(type) {
		case *engine.Stepper:
			do(s)
		case *upstream.ReplicatedStepper:
			if own, ok := s.Own().(*engine.Stepper); ok {
				do(own)
			}
		}
	})
}

// treeModels are the models as the tree starts them.
func treeModels(c *catalog, k *kept, queueMax int) (models []tree.Model) {
	for _, info := range c.infos {
		if m, ok := c.upstreams[info.ID]; ok {
			models = append(models, treeUpstream(info.ID, m, queueMax))
			continue
		}
		e, remote := c.engines[info.ID], c.replicated[info.ID]
		models = append(models, tree.Model{
			ID:               info.ID,
			PinBytesPerToken: e.BytesPerToken(),
			PollEvery:        readerPoll,
			New: func(wake func()) (batcher.Stepper, error) {
				s, err := e.NewStepper()
				if err == nil {
					k.restore(info.ID, s)
				}
				if err == nil && remote != nil {
					return remote.NewReplicatedStepper(wake, s), nil
				}
				return s, err
			},
			Load: func(n *abi.Counters) { load(n, e, queueMax) },
		})
	}
	return models
}

// load fills in how full a model was when its step loop last said so. Before it has,
// nothing waits.
func load(n *abi.Counters, e *engine.Engine, queueMax int) {
	s := e.Stats()
	p := s.Pool
	n.ModelQueued, n.ModelQueuedMax, n.ModelWaitMS = int64(s.Scheduler.Waiting), int64(queueMax), s.Scheduler.QueueWait.Milliseconds()
	n.ModelPagesUsed, n.ModelPages = int64(p.PagesOwned), int64(p.PagesOwned+p.PagesCached+p.PagesFree)
}
