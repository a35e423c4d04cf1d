package main

import (
	"cmp"
	"time"

	"corenode/node/admin"
	"corenode/node/config"
)

// Settings implements admin.Running.
func (l live) Settings() (all []admin.Setting) {
	cfg, origins := l.n.cfg, config.Origins{}
	if l.n.reloads != nil {
		cfg, origins = l.n.reloads.inForce()
	}
	for _, s := range config.Settings(cfg, origins) {
		all = append(all, admin.Setting{Key: s.Key, Value: s.Value, Default: s.Default, Source: cmp.Or(s.Source, "default"), Line: s.Line,
			Changed: s.Changed(), Reload: s.Reload})
	}
	return all
}

// Logs implements admin.Running.
func (l live) Logs(q admin.LogQuery) admin.LogPage {
	if l.n.logs == nil {
		return admin.LogPage{Data: []admin.LogLine{}}
	}
	return l.n.logs.list(q)
}

// DrainState implements admin.Running.
func (l live) DrainState() admin.DrainState {
	s := admin.DrainState{Draining: l.n.Draining(), Requests: len(l.n.tree.Live()), Rows: l.n.tree.Ledger().Waiting,
		TimeoutMS: (l.n.cfg.Limits.DrainDelay + l.n.cfg.Limits.DrainTimeout).Milliseconds()}
	if until := l.n.drainUntil.Load(); until == nil && s.Draining {
		s.LeftMS = s.TimeoutMS // it is about to begin
	} else if until != nil {
		s.LeftMS = max(0, time.Until(*until).Milliseconds())
	}
	return s
}
