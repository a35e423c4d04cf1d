package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"corenode/actors/ledger"
	"corenode/actors/limiter"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/engine/upstream"
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
func admissionReadings(c *limiter.Counts) map[string]float64 {
	return map[string]float64{
		"grants":          float64(c.Held.Load()),
		"grants_total":    float64(c.Grants.Load()),
		"returns_total":   float64(c.Returned.Load()),
		"covered_total":   float64(c.Covered.Load()),
		"asked_total":     float64(c.Proposed.Load()),
		"refused_total":   float64(c.Refused.Load()),
		"undecided_total": float64(c.Failed.Load()),
	}
}

// ledgerReadings are what the ledger says of itself.
func ledgerReadings(s ledger.Stats) map[string]float64 {
	return map[string]float64{
		"waiting":        float64(s.Waiting),
		"commits_total":  float64(s.Commits),
		"rows_total":     float64(s.Rows),
		"spilled_rows":   float64(s.Spilled),
		"failures_total": float64(s.Failures),
	}
}

// writeMetrics writes the series that are read at each scrape, but those of writeCharted.
func (n *node) writeMetrics(w io.Writer) {
	writeSeries(w, n.readings())
	n.writeModuleMetrics(w)
}

// writeCharted writes the series of the models and the ledger, which the console reads every second.
func (n *node) writeCharted(w io.Writer) {
	all := map[string]float64{}
	n.readModels(all)
	for name, value := range ledgerReadings(n.tree.Ledger()) {
		all["corenode_ledger_"+name] = value
	}
	writeSeries(w, all)
}

func writeSeries(w io.Writer, all map[string]float64) {
	var text []byte
	for _, series := range slices.Sorted(maps.Keys(all)) {
		text = append(append(text, series...), ' ')
		if value := all[series]; float64(int64(value)) == value {
			text = strconv.AppendInt(text, int64(value), 10) // without an exponent
		} else {
			text = strconv.AppendFloat(text, value, 'g', -1, 64)
		}
		text = append(text, '\n')
	}
	_, _ = w.Write(text) // memory
}

// readings are what everything but the models, the ledger and the modules says of itself, by series.
func (n *node) readings() map[string]float64 {
	counters := n.tree.Counters()
	all := map[string]float64{
		fmt.Sprintf("corenode_info{version=%q,go=%q,config=%q}", version, runtime.Version(), n.cfg.Digest()): 1,
		"corenode_memory_limit_bytes":        float64(physicalMemory()),
		"corenode_provisional_charges_total": float64(counters.Provisional.Load() + n.provisional.Load()),
		"corenode_dead_letters_total":        float64(n.tree.DeadLetters()),
	}
	add := func(format string, readings map[string]float64) {
		for name, value := range readings {
			all[fmt.Sprintf(format, name)] = value
		}
	}
	add("corenode_cluster_%s", clusterReadings(n.database))
	add("corenode_cluster_%s", admissionReadings(&counters.Limits))
	add("corenode_traces_total{result=%q}", n.traceReadings())
	for _, name := range tree.Actors() {
		all[fmt.Sprintf("corenode_actor_failures_total{actor=%q}", name)] = float64(counters.Failures(name))
	}
	for _, kind := range abi.Kinds() {
		all[fmt.Sprintf("corenode_admission_refusals_total{kind=%q}", kind)] = float64(counters.Refused(kind))
	}
	return all
}

// readModels adds what each model says of itself. Model ids come from the config, never from a client.
func (n *node) readModels(all map[string]float64) {
	down, remote := n.tree.Down(), n.catalog.remote()
	for _, info := range n.catalog.infos {
		label := fmt.Sprintf("{model=%q}", info.ID)
		add := func(readings map[string]float64) {
			for name, value := range readings {
				all["corenode_"+name+label] = value
			}
		}
		add(map[string]float64{"model_down": float64(oneIf(slices.Contains(down, info.ID)))})
		if m, ok := remote[info.ID]; ok {
			add(upstreamReadings(m))
			for _, reason := range upstream.Reasons() {
				all[fmt.Sprintf("corenode_upstream_ejections_total{model=%q,reason=%q}", info.ID, reason)] =
					float64(m.Counts().Ejections[reason].Load())
			}
		}
		e := n.catalog.engines[info.ID]
		if e == nil {
			continue
		}
		stats := e.Stats() // zeros before the first step
		add(readingsOf(stats))
		for name, of := range drafters {
			labels := fmt.Sprintf("{model=%q,drafter=%q}", info.ID, name)
			all["corenode_drafted_tokens_total"+labels] = float64(of(stats).Drafted)
			all["corenode_accepted_tokens_total"+labels] = float64(of(stats).Accepted)
		}
	}
}
