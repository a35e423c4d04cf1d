package main

import (
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

// ownStepper is the stepper of this node's own engine, if there is one in s.
func ownStepper(s batcher.Stepper) (own *engine.Stepper, ok bool) {
	switch s := s.(type) {
	case *engine.Stepper:
		return s, true
	case *upstream.ReplicatedStepper:
		own, ok = s.Own().(*engine.Stepper)
	}
	return own, ok
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
			IDs:              []string{info.ID},
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
	s, _ := e.Stats()
	p := s.Pool
	n.ModelQueued, n.ModelQueuedMax, n.ModelWaitMS = int64(s.Scheduler.Waiting), int64(queueMax), s.Scheduler.QueueWait.Milliseconds()
	n.ModelPagesUsed, n.ModelPages = int64(p.PagesOwned), int64(p.PagesOwned+p.PagesCached+p.PagesFree)
}
