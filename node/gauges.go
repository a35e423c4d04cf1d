package main

import (
	"fmt"
	"time"

	"corenode/actors/tree"
	"corenode/engine"
	"corenode/node/server"
	"corenode/wasm/abi"
)

// drafters are what drafts tokens, by the label of its metrics.
var drafters = map[string]func(engine.Stats) engine.Drafts{
	"ngram": func(s engine.Stats) engine.Drafts { return s.LookupDrafts },
	"mtp":   func(s engine.Stats) engine.Drafts { return s.LayerDrafts },
}

// draftsOf are the tokens that one of the drafters proposed for a model and that
// steps computed, and those of them that were kept.
func draftsOf(e *engine.Engine, of func(engine.Stats) engine.Drafts) (drafted, accepted func() float64) {
	read := func(value func(engine.Drafts) int64) func() float64 {
		return func() float64 {
			s, _ := e.Stats() // zeros before the first step
			return float64(value(of(s)))
		}
	}
	return read(func(d engine.Drafts) int64 { return d.Drafted }), read(func(d engine.Drafts) int64 { return d.Accepted })
}

// gaugesOf are the readings of one model's step loop by metric name. Counters
// that only rise end in _total.
func gaugesOf(e *engine.Engine) map[string]func() float64 {
	read := func(value func(engine.Stats) int64) func() float64 {
		return func() float64 {
			s, ok := e.Stats()
			if !ok {
				return 0
			}
			return float64(value(s))
		}
	}
	seconds := func(value func(engine.Stats) time.Duration) func() float64 {
		nanoseconds := read(func(s engine.Stats) int64 { return int64(value(s)) })
		return func() float64 { return nanoseconds() / float64(time.Second) }
	}
	return map[string]func() float64{
		"pages_free":                read(func(s engine.Stats) int64 { return int64(s.Pool.PagesFree) }),
		"pages_owned":               read(func(s engine.Stats) int64 { return int64(s.Pool.PagesOwned) }),
		"pages_cached":              read(func(s engine.Stats) int64 { return int64(s.Pool.PagesCached) }),
		"pages_pinned":              read(func(s engine.Stats) int64 { return int64(s.Pool.PagesPinned) }),
		"pages_evicted_total":       read(func(s engine.Stats) int64 { return s.Pool.PagesEvicted }),
		"snapshots":                 read(func(s engine.Stats) int64 { return int64(s.Pool.Snapshots) }),
		"snapshots_evicted_total":   read(func(s engine.Stats) int64 { return s.Pool.SnapshotsEvicted }),
		"prefix_lookups_total":      read(func(s engine.Stats) int64 { return s.Pool.Lookups }),
		"prefix_hits_total":         read(func(s engine.Stats) int64 { return s.Pool.Hits }),
		"prefix_hit_tokens_total":   read(func(s engine.Stats) int64 { return s.Pool.HitTokens }),
		"pins_broken_total":         read(func(s engine.Stats) int64 { return s.Pool.PinsBroken }),
		"stale_handles_total":       read(func(s engine.Stats) int64 { return s.Pool.StaleHandles }),
		"sequences_running":         read(func(s engine.Stats) int64 { return int64(s.Scheduler.Running) }),
		"sequences_waiting":         read(func(s engine.Stats) int64 { return int64(s.Scheduler.Waiting) }),
		"sequences_paused":          read(func(s engine.Stats) int64 { return int64(s.Scheduler.Paused) }),
		"sequences_preempted_total": read(func(s engine.Stats) int64 { return s.Scheduler.Preempted + s.Scheduler.PreemptedFair }),
		"queue_expired_total":       read(func(s engine.Stats) int64 { return s.Scheduler.Expired }),
		"step_prefill_tokens_total": read(func(s engine.Stats) int64 { return s.Scheduler.PrefillTokens }),
		"step_decode_tokens_total":  read(func(s engine.Stats) int64 { return s.Scheduler.DecodeTokens }),
		"sequences_speculating":     read(func(s engine.Stats) int64 { return int64(s.Scheduler.Drafting) }),
		"recomputed_tokens_total":   read(func(s engine.Stats) int64 { return s.Scheduler.RecomputedTokens }),
		"queue_refused_full_total":  read(func(s engine.Stats) int64 { return s.Scheduler.RefusedQueueFull }),
		"queue_refused_wait_total":  read(func(s engine.Stats) int64 { return s.Scheduler.RefusedWait }),
		"too_large_refused_total":   read(func(s engine.Stats) int64 { return s.Scheduler.RefusedTooLarge }),
		"queue_expected_seconds":    seconds(func(s engine.Stats) time.Duration { return s.Scheduler.QueueWait }),
		"step_last_seconds":         seconds(func(s engine.Stats) time.Duration { return s.Scheduler.StepMeasured }),
		"step_expected_seconds":     seconds(func(s engine.Stats) time.Duration { return s.Scheduler.StepPredicted }),
		"gap_planned_seconds":       seconds(func(s engine.Stats) time.Duration { return s.Scheduler.Gap }),
		"prefill_budget_tokens":     read(func(s engine.Stats) int64 { return int64(s.Scheduler.PrefillBudget) }),
		"sequences_affordable":      read(func(s engine.Stats) int64 { return int64(s.Scheduler.BatchMax) }),
		"cache_bytes":               read(func(s engine.Stats) int64 { return s.CacheBytes }),
	}
}

// gauges are read at each scrape; model ids come from the config, never from a client.
func (n *node) gauges() (gauges []server.Gauge) {
	add := func(name string, value func() float64) {
		gauges = append(gauges, server.Gauge{Name: name, Value: value})
	}
	for _, info := range n.catalog.infos {
		e := n.catalog.engines[info.ID]
		for state, read := range gaugesOf(e) {
			add(fmt.Sprintf("corenode_%s{model=%q}", state, info.ID), read)
		}
		for name, of := range drafters {
			drafted, accepted := draftsOf(e, of)
			add(fmt.Sprintf("corenode_drafted_tokens_total{model=%q,drafter=%q}", info.ID, name), drafted)
			add(fmt.Sprintf("corenode_accepted_tokens_total{model=%q,drafter=%q}", info.ID, name), accepted)
		}
	}
	add("corenode_ledger_waiting", func() float64 { return float64(n.tree.Ledger().Waiting) })
	add("corenode_ledger_commits_total", func() float64 { return float64(n.tree.Ledger().Commits) })
	add("corenode_ledger_rows_total", func() float64 { return float64(n.tree.Ledger().Rows) })
	add("corenode_ledger_spilled_rows", func() float64 { return float64(n.tree.Ledger().Spilled) })
	add("corenode_ledger_failures_total", func() float64 { return float64(n.tree.Ledger().Failures) })
	add("corenode_provisional_charges_total", func() float64 { return float64(n.tree.Counters().Provisional.Load()) })
	add("corenode_dead_letters", func() float64 { return float64(n.tree.DeadLetters()) })
	for _, name := range tree.Actors() {
		add(fmt.Sprintf("corenode_actor_failures{actor=%q}", name), func() float64 { return float64(n.tree.Counters().Failures(name)) })
	}
	for _, kind := range abi.Kinds() {
		add(fmt.Sprintf("corenode_admission_refusals{kind=%q}", kind), func() float64 { return float64(n.tree.Counters().Refused(kind)) })
	}
	return gauges
}
