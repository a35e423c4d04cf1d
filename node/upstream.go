package main

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"corenode/actors/batcher"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/engine/upstream"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/wasm/abi"
)

// openUpstream makes a model that servers elsewhere answer. It does not wait for one.
func openUpstream(cfg *config.Config, id string, secret []byte, log *slog.Logger) (*upstream.Model, error) {
	o, err := upstreamOptions(cfg, id)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", id, err)
	}
	o.Secret, o.Log = secret, log
	m, err := upstream.Open(o)
	if err != nil {
		return nil, err
	}
	log.Info("model loaded", "model", id, "engine", m.Describe(), "context_length", o.ContextLength)
	return m, nil
}

// upstreamOptions turns one model's configuration into what package upstream wants.
func upstreamOptions(cfg *config.Config, id string) (upstream.Options, error) {
	m, u, l := cfg.Models[id], cfg.Models[id].Upstream, cfg.Limits
	o := upstream.Options{
		Info: engine.Info{ID: id, DisplayName: cmp.Or(m.DisplayName, id), ContextLength: m.ContextLength,
			OutputMax: cmp.Or(m.OutputMax, m.ContextLength), Created: time.Now().Unix()},
		Flavor: upstream.Flavor(u.Flavor), URLs: u.URLs, DNS: u.DNS, Model: u.Model, Sampling: u.Sampling, SharedCache: u.SharedCache,
		PassInvalidCalls: u.Verify == config.VerifyCount, ConnectionsMax: u.ConnectionsMax,
		QueueMax: l.QueueRequestsMax, QueueTimeout: l.QueueTimeout, ReaderTimeout: l.SlowReaderCancel,
		FirstTimeout: u.FirstTokenTimeout, StallTimeout: u.StallTimeout,
	}
	var err error
	if o.Key, err = upstreamKey(u); err != nil {
		return o, fmt.Errorf("read the servers' key: %w", err)
	}
	if u.Tokenizer != "" {
		day, err := templateDate(m)
		if err != nil {
			return o, err
		}
		counter, err := engine.OpenCounter(engine.Options{Info: o.Info, Path: u.Tokenizer, TemplateDate: day,
			TemplateSchema: m.TemplateSchema}, m.Template, o.Flavor.Traits().Extended)
		if err != nil {
			return o, fmt.Errorf("tokenizer: %w", err)
		}
		o.Counter = counter
	}
	return o, nil
}

// upstreamKey reads the key that servers ask for; "" where no file is named.
func upstreamKey(u config.Upstream) (string, error) {
	if u.KeyFile == "" {
		return "", nil
	}
	key, err := os.ReadFile(u.KeyFile)
	return string(bytes.TrimSpace(key)), err
}

// changedKeys reads the files of the keys of servers elsewhere again. changed are the keys that differ from those in
// force, by model, and unread why one cannot be read. A file that next does not name is for the next start.
func (n *node) changedKeys(running, next *config.Config) (changed map[string]string, unread map[string]error) {
	changed, unread = map[string]string{}, map[string]error{}
	for id, m := range n.catalog.upstreams {
		u := running.Models[id].Upstream
		if next.Models[id].Upstream.KeyFile != u.KeyFile {
			continue
		}
		key, err := upstreamKey(u)
		switch {
		case err != nil:
			unread[id] = err
		case !m.HasKey(key):
			changed[id] = key
		}
	}
	return changed, unread
}

// treeUpstream is such a model as the tree starts it. It wakes the step loop by itself, and pins
// nothing: the servers keep their caches.
func treeUpstream(id string, m *upstream.Model, queueMax int) tree.Model {
	return tree.Model{
		ID:  id,
		New: func(wake func()) (batcher.Stepper, error) { return m.NewStepper(wake), nil },
		Load: func(n *abi.Counters) {
			n.ModelQueued, n.ModelQueuedMax = int64(m.Waiting()), int64(queueMax)
		},
	}
}

// watchUpstream is how often sockets are asked whether their clients have left, where servers
// elsewhere compute: with the wait before a stream's headers it keeps within 300 ms until the
// server learns of it.
const watchUpstream = 100 * time.Millisecond

// watchEvery is 0 for the front end's own default.
func (c *catalog) watchEvery() time.Duration {
	if len(c.remote()) == 0 {
		return 0
	}
	return watchUpstream
}

// adminUpstreams are such models as the admin API sees them.
func adminUpstreams(c *catalog) map[string]admin.Upstream {
	all := make(map[string]admin.Upstream, len(c.upstreams))
	for id, m := range c.remote() {
		all[id] = m
	}
	return all
}

// upstreamReadings are what such a model says of itself, by metric name. Counters that only
// rise end in _total.
func upstreamReadings(m *upstream.Model) map[string]float64 {
	c, up := m.Counts(), 0
	var inFlight, prefixes int
	var queued float64
	var age time.Duration
	for _, r := range m.Replicas() {
		inFlight, prefixes = inFlight+r.InFlight, prefixes+r.Prefixes
		if r.Ready && r.Up && !r.Failing && !r.Draining {
			up++
			queued, age = queued+r.Waiting, max(age, r.WaitingAge)
		}
	}
	return map[string]float64{
		"upstream_replicas_up":         float64(up),
		"upstream_replicas":            float64(len(m.Replicas())),
		"upstream_in_flight":           float64(inFlight),
		"upstream_waiting":             float64(m.Waiting()),
		"upstream_queued":              queued,
		"upstream_queued_age_seconds":  age.Seconds(),
		"upstream_prefixes":            float64(prefixes),
		"upstream_attempts_total":      float64(c.Attempts.Load()),
		"upstream_retries_total":       float64(c.Retries.Load()),
		"upstream_failures_total":      float64(c.Failures.Load()),
		"upstream_full_total":          float64(c.Full.Load()),
		"upstream_invalid_total":       float64(c.InvalidCalls.Load()),
		"upstream_usage_counted_total": float64(c.UsageCounted.Load()),
		"upstream_prefix_asked_total":  float64(c.PrefixAsked.Load()),
		"upstream_prefix_known_total":  float64(c.PrefixKnown.Load()),
	}
}
