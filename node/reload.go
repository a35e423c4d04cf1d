package main

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"corenode/node/admin"
	"corenode/node/cli"
	"corenode/node/config"
	"corenode/node/operators"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
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
	origins config.Origins // where it came from. Guarded by mu, likewise
}

// inForce is the configuration that is in force, and where it came from.
func (r *reloader) inForce() (*config.Config, config.Origins) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running, r.origins
}

// inForce is the configuration as it was read last.
func (n *node) inForce() *config.Config {
	if n.reloads == nil {
		return n.cfg
	}
	running, _ := n.reloads.inForce()
	return running
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
// for a restart. A configuration with mistakes changes nothing; a certificate that
// cannot be used is a problem beside what changed, and so is a key file that cannot be read:
// its model stays as it was.
func (r *reloader) reload() (done admin.Reloaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.manager.reloading()()
	next, origins, err := config.Reread(r.from, r.origins)
	if err != nil {
		done.Problems = problemsOf(err)
		r.log.Error("the configuration is not valid and stays as it was", "problems", done.Problems)
		return done
	}
	keys, unread := r.node.changedKeys(r.running, next)
	now, changed, waits := config.Reload(r.running, next, slices.Collect(maps.Keys(unread))...)
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		if config.ServersWait(id, waits) {
			delete(keys, id)
			waits = append(waits, config.KeyFileOf(id))
			continue
		}
		changed = append(changed, config.KeyFileOf(id))
	}
	if config.PricesChanged(changed) {
		if err := r.node.setPrices(prices(r.running), prices(now)); err != nil {
			done.Problems = []string{err.Error()}
			r.log.Error("the configuration stays as it was: its prices cannot be kept", "error", err.Error())
			return done
		}
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(now.Log.Level)) // it is valid
	r.level.Set(min(level, r.level.Level()))       // what is said of the reload is for the old level too
	renewed, unused := r.node.reloadToken(next.Admin.TokenFile)
	r.node.apply(now, changed, keys)
	r.running, r.origins = now, r.origins.Follow(waits, origins)
	replaced, problems := r.node.reloadCertificates() // the files: their keys wait for a restart
	changed, problems = append(append(changed, renewed...), replaced...), append(unused, problems...)
	for _, id := range slices.Sorted(maps.Keys(unread)) {
		problems = append(problems, config.KeyFileOf(id)+": "+unread[id].Error()+"; the model stays as it was")
		r.log.Error("the key of a model's servers cannot be read: the model stays as it was", "model", id, "error", unread[id].Error())
	}
	if err := cli.WantServedFolder(next.DataDir, config.OverruledFolder(r.from, origins)); err != nil {
		problems = append(problems, "the next start will be refused: "+err.Error())
	}
	say := r.log.Info
	if len(waits) > 0 {
		say = r.log.Warn
	}
	say("the configuration is read again", "changed", changed, "wait_for_restart", waits)
	r.level.Set(level)
	return admin.Reloaded{Changed: changed, Waiting: waits, Problems: problems}
}

// reloadToken reads the file of the node's own token again, for the operators that are set next, and leaves the token in
// the data folder for commands. A file that the configuration does not name any more waits for the next start.
func (n *node) reloadToken(named string) (changed, problems []string) {
	if named == "" || named != n.cfg.Admin.TokenFile {
		return nil, nil
	}
	token, err := n.readToken(named)
	if err == nil && token != n.token {
		err = admin.AnnounceToken(n.cfg.DataDir, token, named)
		changed = []string{"admin.token_file"}
	}
	if err != nil {
		n.log.Error("the file of the node's own token cannot be used: the token stays as it was", "error", err.Error())
		return nil, []string{"admin.token_file: " + err.Error() + "; the token stays as it was"}
	}
	n.token = token
	return changed, nil
}

// apply puts in force what of a configuration can change in a running node, and the keys of servers elsewhere, by
// model. Other servers and the key that they ask for come together.
func (n *node) apply(now *config.Config, changed []string, keys map[string]string) {
	n.modules.Trust(now.Modules.Keys(), now.Modules.Denials())
	n.server.SetPeerKeys(now.Server.PeerKeys)
	n.server.SetCORS(now.Server.CORSOrigins)
	operators, _ := operators.ParseAll(now.Admin.Operators) // they are valid
	n.server.SetOperators(n.token, operators)
	if n.database != nil {
		n.database.sayPrices(now)
	}
	for id, m := range n.catalog.upstreams {
		var urls []string
		if slices.Contains(changed, config.URLsOf(id)) {
			urls = now.Models[id].Upstream.URLs
		}
		if key, other := keys[id]; other {
			m.SetKey(key, urls)
		} else if urls != nil {
			m.Follow(urls)
		}
		m.SetSampling(now.Models[id].Upstream.Sampling)
	}
	for id, e := range n.catalog.engines {
		if err := e.Configure(configured(now.Models[id].Sampling)); err != nil { // what was checked with the file cannot be wrong
			n.log.Error("the sampling of a model stays as it was", "model", id, "error", err.Error())
		}
	}
}

// setPrices lists the prices of a configuration that was read again; where nodes have them in common, on all.
func (n *node) setPrices(before, now map[string]abi.Prices) error {
	if n.commons != nil {
		if err := n.commons.setPrices(before, now); err != nil {
			return err
		}
		if err := n.commons.takePrices(); err != nil { // at once: a look may be compiling a module
			n.log.Warn("the new prices are kept, and are quoted once they can be read", "error", err.Error())
			n.commons.wake()
		}
		return nil
	}
	return n.listPrices(before, now)
}

// listPrices lists other prices, once the store has them: a crash settles what runs at those that it was quoted.
// Writing takes a while in which the ones before are still quoted, so the store is told afterwards until when they were.
func (n *node) listPrices(before, now map[string]abi.Prices) error {
	kept, err := n.store.KeptPrices()
	if err != nil {
		return err
	}
	if err := n.store.KeepPrices(rules.PricesAfter(kept, before, now, time.Now().Add(rules.PricesChange))); err != nil {
		return err
	}
	n.modules.SetPrices(now)
	if err := n.store.KeepPrices(rules.PricesAfter(kept, before, now, time.Now())); err != nil {
		n.modules.SetPrices(before)
		return errors.Join(err, n.store.KeepPrices(kept))
	}
	return nil
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
