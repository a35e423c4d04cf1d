package metrics

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// firing is what an alert says in a minute: the labels of each that fires, such as "instance: a, model: m". None is silence.
type firing struct {
	minute int
	alert  string
	labels []string
}

// testRules has Prometheus evaluate the alerts once a minute over series, each a line of a name with labels, ": " and its values.
func testRules(t *testing.T, series string, want []firing) {
	t.Helper()
	var rules bytes.Buffer
	if err := WriteRules(&rules); err != nil {
		t.Fatal(err)
	}
	cases := "rule_files: [rules.yml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n"
	for line := range strings.Lines(strings.TrimSpace(series)) {
		name, values, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			t.Fatalf("%q is no series", line)
		}
		cases += fmt.Sprintf("      - {series: '%s', values: '%s'}\n", name, values)
	}
	cases += "    alert_rule_test:\n"
	for _, w := range want {
		at := slices.IndexFunc(Alerts(), func(a Alert) bool { return a.Name == w.alert })
		if at < 0 {
			t.Fatalf("there is no alert %s", w.alert)
		}
		a := &Alerts()[at]
		cases += fmt.Sprintf("      - eval_time: %dm\n        alertname: Corenode%s\n", w.minute, w.alert)
		for i, labels := range w.labels {
			if i == 0 {
				cases += "        exp_alerts:\n"
			}
			cases += fmt.Sprintf("          - {exp_labels: {severity: %s, %s}, exp_annotations: {summary: %s}}\n",
				severity(a.Urgent), labels, quoted(plain(a.Meaning)))
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yml": rules.String(), "cases.yml": cases} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, nil, "test", "rules", filepath.Join(dir, "cases.yml"))
}

// TestRulesSeeALostNode: of several nodes one that is killed says nothing any more, and those that are left do.
func TestRulesSeeALostNode(t *testing.T) {
	testRules(t, `
		corenode_info{instance="left"}: 1x30
		corenode_cluster_admits{instance="left"}: 1x30
		corenode_cluster_fenced_total{instance="left"}: 0x5 1x25
		corenode_info{instance="killed"}: 1x5 stale
		corenode_cluster_admits{instance="killed"}: 1x5 stale
		corenode_cluster_fenced_total{instance="killed"}: 0x5 stale
	`, []firing{{4, "NodeLost", nil}, {9, "NodeLost", []string{"instance: left"}}, {25, "NodeLost", nil}})
}

// TestRulesSeeASilentNode: of several nodes that share nothing one that dies is missed, for an hour. One that was seen to drain, or
// is there again, is not; one whose drain ended before a scrape is. It is one alert, whatever other versions it had in that hour.
func TestRulesSeeASilentNode(t *testing.T) {
	silent := []string{"instance: drained quickly", "instance: killed", "instance: updated"}
	testRules(t, `
		corenode_info{instance="left",version="1"}: 1x90
		corenode_draining{instance="left"}: 0x90
		corenode_cluster_fenced_total{instance="left"}: 0x90
		corenode_info{instance="killed",version="1"}: 1x5 stale
		corenode_draining{instance="killed"}: 0x5 stale
		corenode_cluster_fenced_total{instance="killed"}: 0x5 stale
		corenode_info{instance="updated",version="1",go="1"}: 1x3 stale
		corenode_info{instance="updated",version="2",go="1"}: _x4 1x1 stale
		corenode_draining{instance="updated"}: 0x5 stale
		corenode_info{instance="drained",version="1"}: 1x5 stale
		corenode_draining{instance="drained"}: 0x4 1 stale
		corenode_info{instance="drained quickly",version="1"}: 1x5 stale
		corenode_draining{instance="drained quickly"}: 0x5 stale
		corenode_info{instance="began anew",version="1"}: 1x5 stale
		corenode_info{instance="began anew",version="2"}: _x7 1x80
		corenode_draining{instance="began anew"}: 1x5 stale _ 0x80
	`, []firing{{5, "NodeSilent", nil}, {10, "NodeSilent", silent}, {60, "NodeSilent", silent}, {70, "NodeSilent", nil}})
}

// TestRulesTellOverload: a node that drains, has lost its place, cannot write its ledger, has a model that is down, servers
// elsewhere that fail or are full, or lacks a module or has one that fails, refuses with the same status, and is not too small:
// not at that time, nor while the rate still sees it. A node alone renews no place in a cluster, and a module that fails now
// and then, or for want of room, or that what ships stands in for, as it does on no node of a cluster, is no cause.
func TestRulesTellOverload(t *testing.T) {
	want := []firing{{3, "Overloaded", nil}, {3, "ModelDown", nil}, {7, "ModelDown", []string{"instance: fails, model: failed"}}, {12, "ModelDown", nil}}
	for _, minute := range []int{7, 10, 12, 20} {
		want = append(want, firing{minute, "Overloaded",
			[]string{"instance: alone", "instance: member", "instance: one", "instance: one elsewhere", "instance: one tries on", "instance: stood in"}})
	}
	testRules(t, `
		corenode_refusals_total{instance="alone",kind="overloaded"}: 0x4 60+60x25
		corenode_draining{instance="alone"}: 0x30
		corenode_ledger_failures_total{instance="alone"}: 0x30
		corenode_refusals_total{instance="member",kind="overloaded"}: 0x4 60+60x25
		corenode_draining{instance="member"}: 0x30
		corenode_cluster_admits{instance="member"}: 1x30
		corenode_refusals_total{instance="drains",kind="overloaded"}: 0x4 60+60x4 0x20
		corenode_draining{instance="drains"}: 0x4 1x4 0x20
		corenode_refusals_total{instance="out",kind="overloaded"}: 0x4 60+60x4 300x20
		corenode_draining{instance="out"}: 0x30
		corenode_cluster_admits{instance="out"}: 1x4 0x4 1x20
		corenode_refusals_total{instance="disk",kind="overloaded"}: 0x4 60+60x4 300x20
		corenode_draining{instance="disk"}: 0x30
		corenode_ledger_failures_total{instance="disk"}: 0x4 1+1x4 5x20
		corenode_refusals_total{instance="journal",kind="overloaded"}: 0x4 60+60x25
		corenode_draining{instance="journal"}: 0x30
		corenode_ledger_failures_total{instance="journal"}: 0x4 1x25
		corenode_ledger_spilled_rows{instance="journal"}: 0x4 2x25
		corenode_ledger_spilled_rows{instance="alone"}: 0x30
		corenode_refusals_total{instance="relays",kind="overloaded"}: 0x4 60+60x4 300x20
		corenode_draining{instance="relays"}: 0x30
		corenode_upstream_replicas_up{instance="relays",model="away"}: 2x4 0x4 2x20
		corenode_upstream_replicas_up{instance="relays",model="there"}: 1x30
		corenode_refusals_total{instance="elsewhere",kind="overloaded"}: 0x4 60+60x25
		corenode_upstream_replicas_up{instance="elsewhere",model="away"}: 1x30
		corenode_upstream_failures_total{instance="elsewhere",model="away"}: 0x4 20+20x25
		corenode_upstream_full_total{instance="elsewhere",model="away"}: 0x4 40+40x25
		corenode_upstream_retries_total{instance="elsewhere",model="away"}: 0x30
		corenode_refusals_total{instance="one tries on",kind="overloaded"}: 0x4 60+60x25
		corenode_upstream_failures_total{instance="one tries on",model="away"}: 0x4 36+36x25
		corenode_upstream_full_total{instance="one tries on",model="away"}: 0x30
		corenode_upstream_retries_total{instance="one tries on",model="away"}: 0x4 24+24x25
		corenode_refusals_total{instance="one elsewhere",kind="overloaded"}: 0x4 60+60x25
		corenode_upstream_failures_total{instance="one elsewhere",model="away"}: 0x4 6+6x25
		corenode_upstream_full_total{instance="one elsewhere",model="away"}: 0x4 6+6x25
		corenode_upstream_retries_total{instance="one elsewhere",model="away"}: 0x30
		corenode_refusals_total{instance="fails",kind="overloaded"}: 0x4 60+60x4 300x20
		corenode_draining{instance="fails"}: 0x30
		corenode_model_down{instance="fails",model="failed"}: 0x4 1x4 0x20
		corenode_model_down{instance="fails",model="there"}: 0x30
		corenode_refusals_total{instance="lacks",kind="overloaded"}: 0x4 60+60x4 300x20
		corenode_module_slot_missing{instance="lacks",slot="admission"}: 0x4 1x4 0x20
		corenode_module_slot_missing{instance="lacks",slot="chat"}: 0x30
		corenode_refusals_total{instance="faults",kind="overloaded"}: 0x4 60+60x4 300x20
		corenode_module_faults_total{instance="faults",slot="rewrite",cause="trap"}: 0x4 40+40x4 200x20
		corenode_module_faults_total{instance="faults",slot="filter",cause="trap"}: 0x4 20+20x4 100x20
		corenode_refusals_total{instance="one",kind="overloaded"}: 0x4 60+60x25
		corenode_module_faults_total{instance="one",slot="rewrite",cause="trap"}: 0x4 1+1x25
		corenode_module_faults_total{instance="one",slot="chat",cause="overloaded"}: 0x4 60+60x25
		corenode_refusals_total{instance="stood in",kind="overloaded"}: 0x4 60+60x25
		corenode_module_slot_missing{instance="stood in",slot="billing"}: 1x30
		corenode_module_slot_missing{instance="stood in",slot="responses"}: 1x30
		corenode_module_faults_total{instance="stood in",slot="chat",cause="trap"}: 0x4 60+60x25
		corenode_cluster_renewals_total{instance="stood in"}: 0x30
		corenode_refusals_total{instance="waits",kind="overloaded"}: 0x4 60+60x25
		corenode_module_slot_missing{instance="waits",slot="billing"}: 1x30
		corenode_cluster_renewals_total{instance="waits"}: 1+1x30
	`, want)
}

// TestRulesTellWhoseFault: a failure of the node's own is urgent. What servers elsewhere break is told of when it goes on and is
// more than a little.
func TestRulesTellWhoseFault(t *testing.T) {
	testRules(t, `
		corenode_internal_errors_total{instance="own",fault="node"}: 0x4 1x25
		corenode_internal_errors_total{instance="own",fault="server"}: 0x30
		corenode_requests_total{instance="own",kind="ok"}: 0+60x30
		corenode_internal_errors_total{instance="far",fault="node"}: 0x30
		corenode_internal_errors_total{instance="far",fault="server"}: 0x4 1+1x25
		corenode_requests_total{instance="far",kind="ok"}: 0+30x30
		corenode_requests_total{instance="far",kind="internal"}: 0x4 1+1x25
		corenode_requests_total{instance="far",kind="ok",route="readyz"}: 0+3600x30
		corenode_internal_errors_total{instance="once",fault="server"}: 0x4 1x25
		corenode_requests_total{instance="once",kind="ok"}: 0+1x30
		corenode_internal_errors_total{instance="few",fault="server"}: 0x4 1+1x25
		corenode_requests_total{instance="few",kind="ok"}: 0+200x30
	`, []firing{{4, "InternalErrors", nil}, {7, "InternalErrors", []string{"fault: node, instance: own"}}, {12, "InternalErrors", nil},
		{7, "ServersBreak", nil}, {12, "ServersBreak", []string{"instance: far"}}, {20, "ServersBreak", []string{"instance: far"}}})
}

// TestRulesSeeFullServers: servers that refuse most of what they are sent as one too many are told of. Those that refuse some
// are not, nor those that are asked nothing.
func TestRulesSeeFullServers(t *testing.T) {
	testRules(t, `
		corenode_upstream_attempts_total{instance="a",model="full"}: 0x4 60+60x25
		corenode_upstream_full_total{instance="a",model="full"}: 0x4 60+60x25
		corenode_upstream_attempts_total{instance="a",model="busy"}: 0x4 60+60x25
		corenode_upstream_full_total{instance="a",model="busy"}: 0x4 20+20x25
		corenode_upstream_attempts_total{instance="a",model="idle"}: 9x30
		corenode_upstream_full_total{instance="a",model="idle"}: 9x30
	`, []firing{{4, "ServersFull", nil}, {15, "ServersFull", []string{"instance: a, model: full"}}})
}

// TestRulesSeeChargesOfAStart: what a start charges provisionally is there at its first scrape, also where the process before
// had counted as many, or ended long ago.
func TestRulesSeeChargesOfAStart(t *testing.T) {
	testRules(t, `
		corenode_provisional_charges_total{instance="again"}: 2x19 stale 2x40
		process_start_time_seconds{instance="again"}: 0x19 stale 1200x40
		corenode_provisional_charges_total{instance="new"}: _x19 3x40
		process_start_time_seconds{instance="new"}: _x19 1200x40
		corenode_provisional_charges_total{instance="whole"}: _x19 0x40
		process_start_time_seconds{instance="whole"}: _x19 1200x40
		corenode_provisional_charges_total{instance="rises"}: 0x20 1x40
	`, []firing{{18, "ProvisionalCharges", nil},
		{22, "ProvisionalCharges", []string{"instance: again", "instance: new", "instance: rises"}},
		{30, "ProvisionalCharges", []string{"instance: again", "instance: new"}}, {40, "ProvisionalCharges", nil}})
}

// TestRulesSeeMissingModules: what was chosen for a slot is missing where it does not come, and not while a start brings it. A
// start that found a copy of the state misses nothing, and is told of as what it is until somebody chooses.
func TestRulesSeeMissingModules(t *testing.T) {
	testRules(t, `
		corenode_module_slot_missing{instance="lost",slot="billing"}: 1x60
		corenode_modules_loading{instance="lost"}: 0x60
		corenode_modules_state_damaged{instance="lost"}: 0x60
		corenode_module_slot_missing{instance="slow",slot="billing"}: 1x29 0x30
		corenode_modules_loading{instance="slow"}: 1x29 0x30
		corenode_modules_state_damaged{instance="slow"}: 0x60
		corenode_module_slot_missing{instance="copy",slot="billing"}: 0x60
		corenode_modules_loading{instance="copy"}: 0x60
		corenode_modules_state_damaged{instance="copy"}: 1x29 0x30
	`, []firing{{5, "ModuleMissing", []string{"instance: lost, slot: billing"}}, {5, "ModulesLoading", nil},
		{5, "ModuleStateDamaged", []string{"instance: copy"}}, {20, "ModuleMissing", []string{"instance: lost, slot: billing"}},
		{20, "ModulesLoading", []string{"instance: slow"}}, {40, "ModulesLoading", nil}, {40, "ModuleStateDamaged", nil}})
}
