package main

import (
	"log/slog"
	"slices"
	"sync"

	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/operators"
)

// reloader reads the configuration again while the node runs.
type reloader struct {
	from    config.Sources
	level   *slog.LevelVar
	log     *slog.Logger
	node    *node // set before run
	manager supervisor
	asked   chan struct{} // has room for one: what is asked for while one runs is one more

	mu      sync.Mutex
	running *config.Config // what is in force. Guarded by mu; a value in it is never changed
}

func newReloader(from config.Sources, running *config.Config, level *slog.LevelVar, log *slog.Logger) *reloader {
	return &reloader{from: from, running: running, level: level, log: log, asked: make(chan struct{}, 1)}
}

// ask asks for a reload and returns at once.
func (r *reloader) ask() {
	select {
	case r.asked <- struct{}{}:
	default: // one that has not begun will see the same file
	}
}

// run reloads when asked, until done is closed.
func (r *reloader) run(done <-chan struct{}) {
	for {
		select {
		case <-r.asked:
			r.reload()
		case <-done:
			return
		}
	}
}

// reload puts in force what can change in a running node and names what waits
// for a restart. A configuration with mistakes changes nothing.
func (r *reloader) reload() (done admin.Reloaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.manager.reloading()()
	next, err := config.Load(r.from)
	if err != nil {
		done.Problems = problemsOf(err)
		r.log.Error("the configuration is not valid and stays as it was", "problems", done.Problems)
		return done
	}
	now, changed, waits := config.Reload(r.running, next)
	var level slog.Level
	_ = level.UnmarshalText([]byte(now.Log.Level)) // it is valid
	r.level.Set(min(level, r.level.Level()))       // what is said of the reload is for the old level too
	r.node.modules.Trust(now.Modules.Keys(), now.Modules.Denials())
	r.node.server.SetPeerKeys(now.Server.PeerKeys)
	operators, _ := operators.ParseAll(now.Admin.Operators) // they are valid
	r.node.server.SetOperators(operators)
	for id, m := range r.node.catalog.upstreams {
		if urls := now.Models[id].Upstream.URLs; slices.Contains(changed, config.URLsOf(id)) {
			m.Follow(urls)
		}
	}
	changed = append(changed, r.node.reloadCertificates()...)
	say := r.log.Info
	if len(waits) > 0 {
		say = r.log.Warn
	}
	say("the configuration is read again", "changed", changed, "wait_for_restart", waits)
	r.level.Set(level)
	r.running = now
	return admin.Reloaded{Changed: changed, Waiting: waits}
}

// problemsOf takes apart what Load joined.
func problemsOf(err error) (all []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, err.Error())
		}
		return all
	}
	return []string{err.Error()}
}
