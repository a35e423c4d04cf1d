package metrics

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Alert is one rule to begin with.
type Alert struct {
	Name, Expr string
	For        string // how long it has to hold; empty is at once
	Urgent     bool   // somebody has to look now: money, or answers that break
	Meaning    string // what it says, and what to do
}

// Alerts are the rules that OPERATING.md lists and corenode alerts prints.
func Alerts() []Alert { return alerts }

// noBuiltin matches the slots without a native build that would answer instead of a module. On nodes that share a database none
// does: they renew their places there.
const noBuiltin = `slot!~"billing|chat|responses"`

// Probes are the routes of corenode_requests_total that ask for no work.
var Probes = []string{"healthz", "readyz", "metrics", "options"}

var alerts = []Alert{
	{"NodeGone", `absent(corenode_info)`, "1m", true, "no node is scraped"},
	{"NodeSilent", `max by (instance, job) (last_over_time(corenode_info[1h])) ` +
		`unless on (instance) (corenode_info or last_over_time(corenode_draining[1h]) == 1)`, "1m", false,
		"a node is not scraped any more, and no scrape saw it drain, as of one that was idle: if you stopped it, silence its instance " +
			"for an hour; else look at it"},
	{"NodeRestarted", `(time() - process_start_time_seconds < 300) and on (instance) corenode_info`, "", false,
		"a node began within five minutes: unless you did it, see its last log lines and whether memory ran out"},
	{"InternalErrors", `increase(corenode_internal_errors_total{fault="node"}[5m]) > 0`, "", true,
		"a request failed by our fault; the log has the cause"},
	{"Panics", `increase(corenode_panics_total[5m]) > 0 or increase(corenode_actor_failures_total[5m]) > 0`, "", true,
		"a part of the node failed and was made anew; the log has the stack"},
	{"ModelDown", `corenode_model_down > 0`, "", true,
		"a model failed too often and refuses every request: restart the node, and see the lines `actor failed` of the log"},
	{"LedgerFailures", `increase(corenode_ledger_failures_total[5m]) > 0`, "", true, "transactions fail: see the disk, or with `store.url` the database"},
	{"LedgerSpilled", `corenode_ledger_spilled_rows > 0`, "", true, "rows are in the spill journal: see the disk, or with `store.url` the database"},
	{"Unrefunded", `increase(corenode_unrefunded_total[10m]) > 0`, "", true, "a refund has to be made by hand, see the playbook"},
	// A start makes its own before it is first scraped, so that nothing is seen to rise.
	{"ProvisionalCharges", `increase(corenode_provisional_charges_total[5m]) > 0 ` +
		`or corenode_provisional_charges_total > 0 and on (instance) time() - process_start_time_seconds < 900`, "", true,
		"charges are made without the billing module: bring it into service, then `module re-rate`"},
	{"NodeOut", `corenode_cluster_admits == 0`, "30s", true, "a node lost its place among those of its database, and answers 503; its readiness says why"},
	{"NodeLost", `increase(corenode_cluster_fenced_total[10m]) > 0`, "", true,
		"a node of the database was silent for 10 s, and the others counted it out: `cluster nodes` says which; look at it"},
	{"NodesDiffer", `corenode_cluster_differences > 0`, "10m", false, "nodes serve other models, or at other prices, than each other"},
	{"ModuleFaults", `increase(corenode_module_faults_total[5m]) > 0 or increase(corenode_module_fallbacks_total[5m]) > 0`, "", false,
		"a module fails, or something else answers in its place"},
	{"ModuleFailed", `corenode_module_failed > 0`, "", true, "a module is out of service; `module list` says why"},
	{"ModuleMissing", `corenode_module_slot_missing > 0 unless on (instance) corenode_modules_loading == 1`, "2m", true,
		"a slot does not have what you chose for it"},
	{"ModulesLoading", `corenode_modules_loading > 0`, "15m", false,
		"a start has not brought all modules into memory, and others stand in for them: see the log and `module list`"},
	{"ModuleStateDamaged", `corenode_modules_state_damaged > 0`, "", false,
		"a start did not find `state.json` whole: what you changed last may be undone, see `module list`. It ends when you choose " +
			"for a slot"},
	{"ModuleOverShare", `increase(corenode_module_slot_declined_total[5m]) > 0`, "", false,
		"a slot is over its share of the processors, see [Slow modules](#slow-modules)"},
	{"ModuleNearShare", `rate(corenode_module_slot_cpu_seconds_total[5m]) / corenode_module_slot_cpu_limit > 0.8`, "", false,
		"a slot is about to be"},
	{"ModuleSlow", `rate(corenode_module_cpu_seconds_total[5m]) / (rate(corenode_module_requests_total[5m]) > 0) > 0.05`, "", false,
		"a module takes 50 ms of processor time for each request"},
	// A drain, a lost place, a ledger that takes no rows, a model that is down, servers of which none answers, or that fail or are full
	// for half of what is refused (attempts that others followed are no refusals), and a module that is missing, or fails for half of
	// it, and has no native build to stand in, refuse alike. They are left out for as long as the rate sees them.
	{"Overloaded", `sum by (instance) (rate(corenode_refusals_total{kind="overloaded"}[5m])) > 0.1 unless on (instance) (` +
		`max_over_time(corenode_draining[5m]) == 1 or min_over_time(corenode_cluster_admits[5m]) == 0 ` +
		`or increase(corenode_ledger_failures_total[5m]) > 0 or max_over_time(corenode_ledger_spilled_rows[5m]) > 0 ` +
		`or max_over_time(corenode_model_down[5m]) == 1 ` +
		`or min_over_time(corenode_upstream_replicas_up[5m]) == 0 ` +
		`or sum by (instance) (rate(corenode_upstream_failures_total[5m])) + sum by (instance) (rate(corenode_upstream_full_total[5m])) ` +
		`- sum by (instance) (rate(corenode_upstream_retries_total[5m])) ` +
		`> 0.5 * sum by (instance) (rate(corenode_refusals_total{kind="overloaded"}[5m])) ` +
		`or max_over_time(corenode_module_slot_missing{` + noBuiltin + `}[5m]) == 1 ` +
		`or max_over_time(corenode_module_slot_missing[5m]) == 1 and on (instance) corenode_cluster_renewals_total > 0 ` +
		`or sum by (instance) (rate(corenode_module_faults_total{` + noBuiltin + `,cause!="overloaded"}[5m])) ` +
		`> 0.5 * sum by (instance) (rate(corenode_refusals_total{kind="overloaded"}[5m])))`, "", false, "the node is too small for what comes"},
	{"ConnectionsRefused", `increase(corenode_connections_refused_total[5m]) > 0`, "", false,
		"connections over `limits.connections_max` were closed: raise it, and the limit of open files with it, or see who opens so many"},
	{"QueueSlow", `histogram_quantile(0.95, sum by (instance, le) (rate(corenode_queue_seconds_bucket[5m]))) > 5`, "5m", false,
		"requests wait long for their first step"},
	{"QueueExpired", `increase(corenode_queue_expired_total[5m]) > 0`, "5m", false,
		"requests end after `queue_timeout` without a first step: the node is too small for what comes"},
	{"Preempted", `rate(corenode_sequences_preempted_total[5m]) > 0.1`, "10m", false, "too little KV memory, or `sequences_max` too large"},
	{"NoServerUp", `corenode_upstream_replicas_up == 0`, "1m", true, "no server of an upstream model answers"},
	{"ServersFail", `rate(corenode_upstream_failures_total[5m]) / (rate(corenode_upstream_attempts_total[5m]) > 0) > 0.5`, "5m", false,
		"most requests that are sent to the servers of a model fail, or are refused: `upstream list` says why"},
	{"ServersBreak", `sum by (instance) (rate(corenode_internal_errors_total{fault="server"}[5m])) ` +
		`> 0.01 * sum by (instance) (rate(corenode_requests_total{kind=~"ok|internal",route!~"` + strings.Join(Probes, "|") + `"}[5m]))`, "5m", false,
		"more than one answer in a hundred ends in an error by the fault of a server elsewhere: it fails in the middle, or makes " +
			"a call of a tool that is not valid; the log has the cause"},
	{"ServersFull", `rate(corenode_upstream_full_total[5m]) / (rate(corenode_upstream_attempts_total[5m]) > 0) > 0.5`, "5m", false,
		"most requests that are sent to the servers of a model find them full (429, 503, 529): `upstream list` has what they said"},
}

// WriteRules writes the alerts as a file of rules for Prometheus.
func WriteRules(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Alerts of corenode to begin with, as `corenode alerts` prints them.\ngroups:\n  - name: corenode\n    rules:\n")
	for _, a := range Alerts() {
		fmt.Fprintf(&b, "      - alert: Corenode%s\n        expr: %s\n", a.Name, quoted(a.Expr))
		if a.For != "" {
			fmt.Fprintf(&b, "        for: %s\n", a.For)
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n        annotations:\n          summary: %s\n",
			severity(a.Urgent), quoted(plain(a.Meaning)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func severity(urgent bool) string {
	if urgent {
		return "critical"
	}
	return "warning"
}

// quoted is a text as YAML and JSON both read it.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// plain is a meaning without the marks of Markdown.
func plain(s string) string {
	s = strings.ReplaceAll(s, "`", "")
	if before, link, found := strings.Cut(s, "["); found {
		text, rest, _ := strings.Cut(link, "](")
		_, rest, _ = strings.Cut(rest, ")")
		s = before + text + rest
	}
	return s
}
