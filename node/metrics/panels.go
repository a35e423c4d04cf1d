package metrics

// Panel is one panel of the dashboard.
type Panel struct {
	Title   string
	Unit    string // as Grafana names it
	Heat    bool   // a map of a histogram over time
	Queries []Query
}

// Query is one line, or several by label, of a panel.
type Query struct{ Expr, Legend string }

// Row is a row of panels.
type Row struct {
	Title  string
	Panels []Panel
}

func quantiles(family string) (all []Query) {
	for _, percent := range []string{"50", "95", "99"} {
		rates := "sum by (le) (rate(" + family + "_bucket[$__rate_interval]))"
		all = append(all, Query{"histogram_quantile(0." + percent + ", " + rates + ")", "p" + percent})
	}
	return all
}

// sumRate is the rate of a counter by labels.
func sumRate(family, by, legend string) Query {
	if by == "" {
		return Query{"sum(rate(" + family + "[$__rate_interval]))", legend}
	}
	return Query{"sum by (" + by + ") (rate(" + family + "[$__rate_interval]))", legend}
}

// sumOf is a gauge by labels.
func sumOf(family, by, legend string) Query {
	return Query{"sum by (" + by + ") (" + family + ")", legend}
}

func heat(title, family string) Panel {
	return Panel{title, "short", true, []Query{{"sum by (le) (increase(" + family + "_bucket[$__rate_interval]))", "{{le}}"}}}
}

// Rows are the dashboard.
func Rows() []Row {
	return []Row{
		{"Requests", requestPanels()}, {"Latency", latencyPanels()}, {"Tokens and money", moneyPanels()},
		{"Scheduler", schedulerPanels()}, {"Cache", cachePanels()}, {"Ledger and faults", ledgerPanels()}, {"Cluster", clusterPanels()},
		{"Modules", modulePanels()}, {"Servers elsewhere", serverPanels()}, {"Process", processPanels()},
	}
}

func requestPanels() []Panel {
	return []Panel{
		{"Requests", "reqps", false, []Query{sumRate("corenode_requests_total", "kind", "{{kind}}")}},
		{"Refusals by cause", "reqps", false, []Query{sumRate("corenode_refusals_total", "kind", "{{kind}}")}},
		{"Requests at once", "short", false, []Query{{"corenode_requests_in_flight", "{{instance}}"}}},
		{"Clients that left", "reqps", false, []Query{sumRate("corenode_disconnects_total", "phase", "{{phase}}")}},
		{"Bodies in memory", "bytes", false, []Query{{"corenode_body_bytes", "{{instance}}"}}},
		{"Builds", "short", false, []Query{sumOf("corenode_info", "version, config", "{{version}} {{config}}"),
			{"sum(corenode_draining)", "draining"}}},
	}
}

func latencyPanels() []Panel {
	return []Panel{
		{"Time to the first token", "s", false, quantiles("corenode_ttft_seconds")},
		{"Gap between tokens", "s", false, quantiles("corenode_itl_seconds")},
		{"Queue time", "s", false, quantiles("corenode_queue_seconds")},
		{"Request time", "s", false, quantiles("corenode_request_seconds")},
		{"Phases of a request", "s", false, []Query{{"sum by (phase) (rate(corenode_request_phase_seconds_sum[$__rate_interval])) / " +
			"sum by (phase) (rate(corenode_request_phase_seconds_count[$__rate_interval]))", "{{phase}}"}}},
		{"Step time", "s", false, quantiles("corenode_step_seconds")},
	}
}

func moneyPanels() []Panel {
	return []Panel{
		{"Tokens", "short", false, []Query{sumRate("corenode_tokens_total", "kind", "{{kind}}")}},
		{"Money", "currencyUSD", false, []Query{{"sum(rate(corenode_charged_usd_total[$__rate_interval])) * 3600", "an hour"}}},
		heat("Lengths of prompts", "corenode_request_input_tokens"),
		heat("Lengths of answers", "corenode_request_output_tokens"),
	}
}

func schedulerPanels() []Panel {
	return []Panel{
		{"Sequences", "short", false, []Query{sumOf("corenode_sequences_running", "model", "{{model}} running"),
			sumOf("corenode_sequences_waiting", "model", "{{model}} waiting"),
			sumOf("corenode_sequences_paused", "model", "{{model}} paused"),
			sumOf("corenode_sequences_affordable", "model", "{{model}} may run")}},
		{"Expected wait", "s", false, []Query{{"corenode_queue_expected_seconds", "{{instance}} {{model}}"}}},
		{"Rows of a step", "short", false, []Query{{"sum by (kind) (rate(corenode_step_rows_total[$__rate_interval])) / " +
			"scalar(sum(rate(corenode_step_seconds_count[$__rate_interval])))", "{{kind}}"}}},
		{"Latest step against expectation", "s", false, []Query{{"corenode_step_last_seconds", "{{instance}} {{model}} took"},
			{"corenode_step_expected_seconds", "{{instance}} {{model}} expected"},
			{"corenode_gap_planned_seconds", "{{instance}} {{model}} gap planned"}}},
		{"Computed tokens", "short", false, []Query{sumRate("corenode_step_prefill_tokens_total", "model", "{{model}} prompt"),
			sumRate("corenode_step_decode_tokens_total", "model", "{{model}} produced"),
			sumRate("corenode_recomputed_tokens_total", "model", "{{model}} again")}},
		{"Preempted and refused", "short", false, []Query{sumRate("corenode_sequences_preempted_total", "model", "{{model}} preempted"),
			sumRate("corenode_queue_expired_total", "model", "{{model}} waited too long"),
			sumRate("corenode_queue_refused_full_total", "model", "{{model}} queue full"),
			sumRate("corenode_queue_refused_wait_total", "model", "{{model}} queue too long"),
			sumRate("corenode_too_large_refused_total", "model", "{{model}} too large")}},
		{"Drafts", "percentunit", false, []Query{{"sum by (model, drafter) (rate(corenode_accepted_tokens_total[$__rate_interval])) / " +
			"sum by (model, drafter) (rate(corenode_drafted_tokens_total[$__rate_interval]))", "{{model}} {{drafter}} kept"}}},
	}
}

func cachePanels() []Panel {
	return []Panel{
		{"Pages", "short", false, []Query{sumOf("corenode_pages_free", "model", "{{model}} free"),
			sumOf("corenode_pages_owned", "model", "{{model}} owned"), sumOf("corenode_pages_cached", "model", "{{model}} cached"),
			sumOf("corenode_pages_pinned", "model", "{{model}} pinned")}},
		{"Prefix cache", "percentunit", false, []Query{{"sum by (model) (rate(corenode_prefix_hits_total[$__rate_interval])) / " +
			"sum by (model) (rate(corenode_prefix_lookups_total[$__rate_interval]))", "{{model}} hits"}}},
		{"Evictions", "short", false, []Query{sumRate("corenode_pages_evicted_total", "model", "{{model}} pages"),
			sumRate("corenode_snapshots_evicted_total", "model", "{{model}} snapshots"),
			sumRate("corenode_pins_broken_total", "model", "{{model}} pins")}},
	}
}

func ledgerPanels() []Panel {
	return []Panel{
		{"Ledger", "short", false, []Query{{"corenode_ledger_waiting", "{{instance}} waiting"},
			{"corenode_ledger_spilled_rows", "{{instance}} spilled"}}},
		{"Ledger commits", "short", false, []Query{sumRate("corenode_ledger_commits_total", "", "commits/s"),
			sumRate("corenode_ledger_rows_total", "", "rows/s")}},
		{"Money at risk", "short", false, []Query{sumRate("corenode_provisional_charges_total", "", "provisional charges"),
			sumRate("corenode_unrefunded_total", "", "unrefunded"), sumRate("corenode_ledger_failures_total", "", "failed transactions")}},
		{"Faults of the node", "short", false, []Query{sumRate("corenode_panics_total", "", "panics"),
			sumRate("corenode_internal_errors_total", "fault", "internal errors by a {{fault}}"),
			sumRate("corenode_actor_failures_total", "actor", "{{actor}}"), sumRate("corenode_dead_letters_total", "", "dead letters"),
			sumRate("corenode_connections_refused_total", "", "refused connections"),
			{"corenode_model_down > 0", "{{instance}} {{model}} down"}}},
		{"Traces", "short", false, []Query{sumRate("corenode_traces_total", "result", "{{result}}")}},
	}
}

func clusterPanels() []Panel {
	return []Panel{
		{"Nodes", "short", false, []Query{{"corenode_cluster_nodes", "{{instance}} sees live"},
			{"corenode_cluster_admits", "{{instance}} admits"}, {"corenode_cluster_differences", "{{instance}} differences"},
			{"corenode_cluster_taken", "{{instance}} taken"}}},
		{"Life of nodes", "short", false, []Query{sumRate("corenode_cluster_renewals_total", "instance", "{{instance}} renewals"),
			sumRate("corenode_cluster_losses_total", "instance", "{{instance}} lost its place"),
			sumRate("corenode_cluster_fenced_total", "instance", "{{instance}} counted out"),
			sumRate("corenode_cluster_changes_total", "", "changes")}},
		{"Admission", "reqps", false, []Query{sumRate("corenode_cluster_covered_total", "", "by a grant"),
			sumRate("corenode_cluster_asked_total", "", "by the database"), sumRate("corenode_cluster_refused_total", "", "refused"),
			sumRate("corenode_cluster_undecided_total", "", "undecided")}},
		{"Grants", "short", false, []Query{{"corenode_cluster_grants", "{{instance}} grants"},
			sumRate("corenode_cluster_grants_total", "", "new grants"), sumRate("corenode_cluster_returns_total", "", "returns")}},
	}
}

func modulePanels() []Panel {
	return []Panel{
		{"Serving modules", "short", false, []Query{{"sum by (slot, module) (corenode_module_serving) > 0", "{{slot}} {{module}}"}}},
		{"State of modules", "short", false, []Query{{"corenode_modules_loading", "{{instance}} loading"},
			{"corenode_modules_state_damaged", "{{instance}} state damaged"},
			{"corenode_module_slot_missing > 0", "{{instance}} {{slot}} missing"},
			{"corenode_module_failed > 0", "{{instance}} {{module}} failed"},
			{"corenode_module_denied > 0", "{{instance}} {{module}} denied"}}},
		{"Calls of modules", "short", false, []Query{sumRate("corenode_module_calls_total", "slot, module", "{{slot}} {{module}}")}},
		{"Faults of modules", "short", false, []Query{sumRate("corenode_module_faults_total", "module, cause", "{{module}} {{cause}}"),
			sumRate("corenode_module_declined_total", "module", "{{module}} declined"),
			sumRate("corenode_module_fallbacks_total", "module", "{{module}} answered by another")}},
		{"Processor time of a module for each request", "s", false, []Query{{
			"sum by (slot, module) (rate(corenode_module_cpu_seconds_total[$__rate_interval])) / " +
				"(sum by (slot, module) (rate(corenode_module_requests_total[$__rate_interval])) > 0)", "{{slot}} {{module}}"}}},
		{"Share of the processors used", "percentunit", false, []Query{{
			"sum by (instance, slot) (rate(corenode_module_slot_cpu_seconds_total[$__rate_interval])) / " +
				"sum by (instance, slot) (corenode_module_slot_cpu_limit)", "{{instance}} {{slot}}"}}},
		{"Waits of slots", "short", false, []Query{sumRate("corenode_module_slot_wait_seconds_total", "slot", "{{slot}} seconds waited"),
			sumRate("corenode_module_slot_declined_total", "slot", "{{slot}} declined")}},
		{"Shadows", "short", false, []Query{sumRate("corenode_module_shadow_runs_total", "module", "{{module}} runs"),
			sumRate("corenode_module_shadow_mismatches_total", "module", "{{module}} differed"),
			sumRate("corenode_module_shadow_dropped_total", "module", "{{module}} dropped")}},
		{"Busy instances", "short", false, []Query{sumOf("corenode_module_instances_busy", "slot, module", "{{slot}} {{module}}")}},
		{"Memory of modules", "bytes", false, []Query{sumOf("corenode_module_memory_bytes", "slot, module", "{{slot}} {{module}}")}},
	}
}

func serverPanels() []Panel {
	return []Panel{
		{"Servers", "short", false, []Query{sumOf("corenode_upstream_replicas_up", "model", "{{model}} up"),
			sumOf("corenode_upstream_replicas", "model", "{{model}} known")}},
		{"Requests on servers", "short", false, []Query{sumOf("corenode_upstream_in_flight", "model", "{{model}} there"),
			sumOf("corenode_upstream_waiting", "model", "{{model}} wait here"),
			sumOf("corenode_upstream_queued", "model", "{{model}} wait there")}},
		{"Attempts on servers", "reqps", false, []Query{sumRate("corenode_upstream_attempts_total", "model", "{{model}} all"),
			sumRate("corenode_upstream_retries_total", "model", "{{model}} again"),
			sumRate("corenode_upstream_failures_total", "model", "{{model}} failed"),
			sumRate("corenode_upstream_full_total", "model", "{{model}} full")}},
		{"Faults of servers", "short", false, []Query{
			sumRate("corenode_upstream_ejections_total", "model, reason", "{{model}} out: {{reason}}"),
			sumRate("corenode_upstream_invalid_total", "model", "{{model}} invalid calls"),
			sumRate("corenode_upstream_usage_counted_total", "model", "{{model}} usage counted here")}},
		{"Prefixes on servers", "percentunit", false, []Query{{
			"sum by (model) (rate(corenode_upstream_prefix_known_total[$__rate_interval])) / " +
				"sum by (model) (rate(corenode_upstream_prefix_asked_total[$__rate_interval]))", "{{model}} known"}}},
	}
}

func processPanels() []Panel {
	return []Panel{
		{"Uptime", "s", false, []Query{{"time() - process_start_time_seconds", "{{instance}}"}}},
		{"Processors used", "short", false, []Query{{"rate(process_cpu_seconds_total[$__rate_interval])", "{{instance}}"},
			{"rate(go_gc_cpu_seconds_total[$__rate_interval])", "{{instance}} collector"}, {"go_gomaxprocs", "{{instance}} may use"}}},
		{"Memory", "bytes", false, []Query{{"process_resident_memory_bytes", "{{instance}}"},
			{"process_resident_memory_anon_bytes", "{{instance}} anonymous"}, {"process_resident_memory_file_bytes", "{{instance}} files"},
			{"go_memstats_heap_inuse_bytes", "{{instance}} heap"}, {"corenode_cache_bytes", "{{instance}} cache of {{model}}"}}},
		{"Files and goroutines", "short", false, []Query{{"process_open_fds", "{{instance}} descriptors"},
			{"go_goroutines", "{{instance}} goroutines"}}},
		{"Disk", "Bps", false, []Query{{"rate(process_io_storage_read_bytes_total[$__rate_interval])", "{{instance}} read"},
			{"rate(process_io_storage_written_bytes_total[$__rate_interval])", "{{instance}} written"},
			{"rate(process_major_pagefaults_total[$__rate_interval])", "{{instance}} page faults"}}},
		{"Pressure", "percentunit", false, []Query{
			{"rate(process_pressure_cpu_waiting_seconds_total[$__rate_interval])", "{{instance}} processor"},
			{"rate(process_pressure_io_waiting_seconds_total[$__rate_interval])", "{{instance}} disk"},
			{"rate(process_pressure_memory_waiting_seconds_total[$__rate_interval])", "{{instance}} memory"}}},
		{"Wait of goroutines for a processor", "s", false, quantiles("go_sched_latencies_seconds")},
	}
}
