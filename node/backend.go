package main

import (
	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/limiter"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/node/server"
)

// backend shows the actor tree to the front end: the same verbs, each side in
// its own types.
type backend struct{ *tree.Tree }

func (b backend) Generate(c server.Call) (server.Stream, server.Limits, error) {
	s, state, err := b.Tree.Generate(tree.Call(c))
	if err != nil {
		return nil, limits(state), err
	}
	return stream{s}, limits(state), nil
}

func (b backend) Enter(a account.Account) (release func(), l server.Limits, err error) {
	release, state, err := b.Tree.Enter(a)
	return release, limits(state), err
}

func (b backend) Limits(a account.Account) server.Limits { return limits(b.Tree.Limits(a)) }

func limits(s limiter.Limits) server.Limits {
	return server.Limits{
		RequestsLimit: s.RequestsLimit, RequestsRemaining: s.RequestsRemaining, RequestsReset: s.RequestsReset,
		TokensLimit: s.TokensLimit, TokensRemaining: s.TokensRemaining, TokensReset: s.TokensReset,
	}
}

type stream struct{ *tree.Stream }

func (s stream) Outcome() (server.Settled, error) {
	r, err := s.Stream.Outcome()
	return server.Settled{Charge: r.Charge, Usage: r.Usage, Reason: r.Reason,
		Queue: r.Timing.Queue, Prefill: r.Timing.Prefill, Decode: r.Timing.Decode}, err
}

// treeModels are the engines as the tree starts them.
func treeModels(c *catalog, queueMax int) (models []tree.Model) {
	for _, info := range c.infos {
		e := c.engines[info.ID]
		models = append(models, tree.Model{
			IDs:              []string{info.ID},
			PinBytesPerToken: e.BytesPerToken(),
			New:              func() (batcher.Stepper, error) { return e.NewStepper() },
			Load:             func() tree.Load { return loadOf(e, queueMax) },
		})
	}
	return models
}

// loadOf is how full a model was when its step loop last said so. Before it has,
// nothing waits.
func loadOf(e *engine.Engine, queueMax int) tree.Load {
	s, _ := e.Stats()
	p := s.Pool
	return tree.Load{Queued: s.Scheduler.Waiting, QueuedMax: queueMax, Wait: s.Scheduler.QueueWait,
		PagesUsed: p.PagesOwned, Pages: p.PagesOwned + p.PagesCached + p.PagesFree}
}
