package main

import (
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/engine/upstream"
	"corenode/node/server"
	"corenode/wasm/abi"
)

// backend shows the actor tree to the front end. A node that has lost its place among others, for they count
// it out when they do not hear of it, admits nothing; what another one admitted it computes.
type backend struct {
	*tree.Tree
	database *database // nil without others
}

// admits says why nothing is admitted now.
func (b backend) admits() error {
	if b.database == nil {
		return nil
	}
	if err := b.database.Admits(); err != nil {
		return err
	}
	return nil
}

// Enter implements server.Backend.
func (b backend) Enter(a account.Account, key account.LimitedKey) (release func(), limits account.Limits, err error) {
	if err := b.admits(); err != nil {
		return nil, b.Limits(a, key), err
	}
	return b.Tree.Enter(a, key)
}

// Generate implements server.Backend.
func (b backend) Generate(c server.Call) (server.Stream, account.Limits, error) {
	if err := b.admits(); err != nil && c.Peer == "" {
		return nil, b.Limits(c.Account, c.Key), err
	}
	s, limits, err := b.Tree.Generate(tree.Call(c))
	if err != nil {
		return nil, limits, err // and not a nil *tree.Stream, which is no nil Stream
	}
	return s, limits, nil
}

// readerPoll is how often a step loop looks whether the readers of jobs that wait for them
// have caught up.
const readerPoll = 5 * time.Millisecond

// stepper shows an engine's stepper to the step loop: it takes a job at once or refuses it.
type stepper struct{ *engine.Stepper }

func (s stepper) Submit(j *engine.Job, now time.Time, taken func(*abi.Error)) {
	if err := s.Stepper.Submit(j, now); err != nil {
		taken(abi.AsError(err))
		return
	}
	taken(nil)
}

// ownStepper is the stepper of this node's own engine, if there is one in s.
func ownStepper(s batcher.Stepper) (own *engine.Stepper, ok bool) {
	switch s := s.(type) {
	case stepper:
		return s.Stepper, true
	case *upstream.SharedStepper:
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
		e, far := c.engines[info.ID], c.shared[info.ID]
		models = append(models, tree.Model{
			IDs:              []string{info.ID},
			PinBytesPerToken: e.BytesPerToken(),
			PollEvery:        readerPoll,
			New: func(wake func()) (batcher.Stepper, error) {
				s, err := e.NewStepper()
				if err == nil {
					k.restore(info.ID, s)
				}
				if err == nil && far != nil {
					return far.NewSharedStepper(wake, s), nil
				}
				return stepper{s}, err
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
