package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"corenode/actors/limiter"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/engine/upstream"
	"corenode/node/server"
	"corenode/wasm/abi"
)

// drafters are what drafts tokens, by the label of its metrics.
var drafters = map[string]func(engine.Stats) engine.Drafts{
	"ngram": func(s engine.Stats) engine.Drafts { return s.LookupDrafts },
	"mtp":   func(s engine.Stats) engine.Drafts { return s.LayerDrafts },
}

// readingsOf are what a model's step loop says of itself, by metric name.
// Counters that only rise end in _total.
func readingsOf(s engine.Stats) map[string]float64 {
	seconds := func(d time.Duration) float64 { return float64(d) / float64(time.Second) }
	return map[string]float64{
		"pages_free":                float64(s.Pool.PagesFree),
		"pages_owned":               float64(s.Pool.PagesOwned),
		"pages_cached":              float64(s.Pool.PagesCached),
		"pages_pinned":              float64(s.Pool.PagesPinned),
		"pages_evicted_total":       float64(s.Pool.PagesEvicted),
		"snapshots":                 float64(s.Pool.Snapshots),
		"snapshots_on_host":         float64(s.Pool.OnHost),
		"snapshots_evicted_total":   float64(s.Pool.SnapshotsEvicted),
		"prefix_lookups_total":      float64(s.Pool.Lookups),
		"prefix_hits_total":         float64(s.Pool.Hits),
		"prefix_hit_tokens_total":   float64(s.Pool.HitTokens),
		"pins_broken_total":         float64(s.Pool.PinsBroken),
		"stale_handles_total":       float64(s.Pool.StaleHandles),
		"sequences_running":         float64(s.Scheduler.Running),
		"sequences_waiting":         float64(s.Scheduler.Waiting),
		"sequences_paused":          float64(s.Scheduler.Paused),
		"sequences_preempted_total": float64(s.Scheduler.Preempted + s.Scheduler.PreemptedFair),
		"queue_expired_total":       float64(s.Scheduler.Expired),
		"step_prefill_tokens_total": float64(s.Scheduler.PrefillTokens),
		"step_decode_tokens_total":  float64(s.Scheduler.DecodeTokens),
		"sequences_speculating":     float64(s.Scheduler.Drafting),
		"recomputed_tokens_total":   float64(s.Scheduler.RecomputedTokens),
		"queue_refused_full_total":  float64(s.Scheduler.RefusedQueueFull),
		"queue_refused_wait_total":  float64(s.Scheduler.RefusedWait),
		"too_large_refused_total":   float64(s.Scheduler.RefusedTooLarge),
		"queue_expected_seconds":    seconds(s.Scheduler.QueueWait),
		"step_last_seconds":         seconds(s.Scheduler.StepMeasured),
		"step_expected_seconds":     seconds(s.Scheduler.StepPredicted),
		"gap_planned_seconds":       seconds(s.Scheduler.Gap),
		"prefill_budget_tokens":     float64(s.Scheduler.PrefillBudget),
		"sequences_affordable":      float64(s.Scheduler.BatchMax),
		"cache_bytes":               float64(s.CacheBytes),
	}
}

// clusterReadings are what a node says of itself among others, by metric name; nil is alone.
func clusterReadings(d *database) map[string]float64 {
	if d == nil {
		return map[string]float64{"nodes": 1, "admits": 1, "differences": 0, "taken": 0, "renewals_total": 0, "losses_total": 0,
			"fenced_total": 0, "changes_total": 0}
	}
	_, c := d.State()
	admits, taken := 1.0, 0.0
	if d.Admits() != nil {
		admits = 0
	}
	if d.Taken() {
		taken = 1
	}
	return map[string]float64{"nodes": float64(len(d.Live())), "admits": admits, "taken": taken,
		"differences":    float64(len(d.Differences())),
		"renewals_total": float64(c.Renewals), "losses_total": float64(c.Fenced), "fenced_total": float64(c.Fences),
		"changes_total": float64(c.Changes)}
}

// admissionReadings are what a node says of how its requests are admitted where others share its store.
func admissionReadings(c *limiter.Counts) map[string]func() float64 {
	count := func(n *atomic.Uint64) func() float64 { return func() float64 { return float64(n.Load()) } }
	return map[string]func() float64{
		"grants":          func() float64 { return float64(c.Held.Load()) },
		"grants_total":    count(&c.Grants),
		"returns_total":   count(&c.Returned),
		"covered_total":   count(&c.Covered),
		"asked_total":     count(&c.Proposed),
		"refused_total":   count(&c.Refused),
		"undecided_total": count(&c.Failed),
	}
}

// gauges are read at each scrape; model ids come from the config, never from a client.
func (n *node) gauges() (gauges []server.Gauge) {
	add := func(name string, value func() float64) {
		gauges = append(gauges, server.Gauge{Name: name, Value: value})
	}
	info := fmt.Sprintf("corenode_info{version=%q,go=%q,config=%q}", version, runtime.Version(), n.cfg.Digest())
	add(info, func() float64 { return 1 })
	add("corenode_memory_limit_bytes", func() float64 { return float64(physicalMemory()) })
	for _, info := range n.catalog.infos {
		add(fmt.Sprintf("corenode_model_down{model=%q}", info.ID), func() float64 {
			if slices.Contains(n.tree.Down(), info.ID) {
				return 1
			}
			return 0
		})
		if m, ok := n.catalog.remote()[info.ID]; ok {
			for name := range upstreamReadings(m) {
				add(fmt.Sprintf("corenode_%s{model=%q}", name, info.ID), func() float64 { return upstreamReadings(m)[name] })
			}
			for _, reason := range upstream.Reasons() {
				add(fmt.Sprintf("corenode_upstream_ejections_total{model=%q,reason=%q}", info.ID, reason),
					func() float64 { return float64(m.Counts().Ejections[reason].Load()) })
			}
		}
		if n.catalog.engines[info.ID] == nil {
			continue
		}
		stats := func() engine.Stats {
			s, _ := n.catalog.engines[info.ID].Stats() // zeros before the first step
			return s
		}
		for name := range readingsOf(engine.Stats{}) {
			add(fmt.Sprintf("corenode_%s{model=%q}", name, info.ID), func() float64 { return readingsOf(stats())[name] })
		}
		for name, of := range drafters {
			labels := fmt.Sprintf("{model=%q,drafter=%q}", info.ID, name)
			add("corenode_drafted_tokens_total"+labels, func() float64 { return float64(of(stats()).Drafted) })
			add("corenode_accepted_tokens_total"+labels, func() float64 { return float64(of(stats()).Accepted) })
		}
	}
	add("corenode_ledger_waiting", func() float64 { return float64(n.tree.Ledger().Waiting) })
	add("corenode_ledger_commits_total", func() float64 { return float64(n.tree.Ledger().Commits) })
	add("corenode_ledger_rows_total", func() float64 { return float64(n.tree.Ledger().Rows) })
	add("corenode_ledger_spilled_rows", func() float64 { return float64(n.tree.Ledger().Spilled) })
	add("corenode_ledger_failures_total", func() float64 { return float64(n.tree.Ledger().Failures) })
	add("corenode_provisional_charges_total", func() float64 { return float64(n.tree.Counters().Provisional.Load()) })
	for name := range clusterReadings(nil) {
		add("corenode_cluster_"+name, func() float64 { return clusterReadings(n.database)[name] })
	}
	for name, value := range admissionReadings(&n.tree.Counters().Limits) {
		add("corenode_cluster_"+name, value)
	}
	add("corenode_dead_letters_total", func() float64 { return float64(n.tree.DeadLetters()) })
	for _, name := range tree.Actors() {
		add(fmt.Sprintf("corenode_actor_failures_total{actor=%q}", name),
			func() float64 { return float64(n.tree.Counters().Failures(name)) })
	}
	for _, kind := range abi.Kinds() {
		add(fmt.Sprintf("corenode_admission_refusals_total{kind=%q}", kind),
			func() float64 { return float64(n.tree.Counters().Refused(kind)) })
	}
	for result, value := range n.traceReadings() {
		add(fmt.Sprintf("corenode_traces_total{result=%q}", result), value)
	}
	return gauges
}
