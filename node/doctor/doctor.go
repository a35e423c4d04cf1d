// Package doctor says what of a node and its machine is well, and what to do about the rest. It is
// pure: the command takes the measurements, and each of them is judged by a rule of its own. What
// could not be measured is left out, or said where its absence matters.
package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// State is how well something is.
type State string

// The states, the best first.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Finding is one thing that was looked at.
type Finding struct {
	Check    string `json:"check"`
	State    State  `json:"state"`
	Measured string `json:"measured"`
	Do       string `json:"do,omitempty"` // empty when it is well
}

// Facts are what was measured. A nil pointer is what could not be.
type Facts struct {
	Now time.Time
	// ConfigProblems are those of the configuration; what depends on it is not judged then.
	ConfigProblems []string
	// Contexts says of which models of a valid configuration the pages do not hold the context_length.
	Contexts []string
	// ContextsElsewhere: all of them by the memory of this command, and the node may have another.
	ContextsElsewhere bool
	Files             *Files
	// HugePages is the chosen word of transparent_hugepage/enabled.
	HugePages *string
	// Sync is the time of each of some syncs of a small write in the data folder.
	Sync      []time.Duration
	SyncError string
	Clock     *Clock
	// ClockProblem is why this process may not ask the system for its clock.
	ClockProblem string
	// Unreadable is why the data folder may not be looked into. Nothing is known then of what is in it, nor of its node.
	Unreadable string
	// NoFolder says that this is no matter of rights: the path is not that of a folder.
	NoFolder bool
	// FolderUnknown says that the configuration is too bad to tell the data folder, which was not looked for then.
	FolderUnknown bool
	// Certificates are those of the configuration, by key.
	Certificates []Certificate
	// Database says whether the data folder has one, LastBackup when the last backup of that was made.
	Database   bool
	LastBackup time.Time
	// DatabaseProblem is why the database cannot be opened. Nothing is known then of its backups. DatabaseUnmerged says that a
	// crash left changes beside it, with which it may be whole.
	DatabaseProblem  string
	DatabaseUnmerged bool
	// Spilled is how many rows the spill journal has of a node that does not run, SpillProblem why it cannot be read.
	Spilled      int
	SpillProblem string
	// Owner is the process, by its id where it left one, that has the folder while no node answers. Nothing is known then of
	// backups and journal.
	Owner string
	// Running says that a node answers; Series are its metrics, their labels in the name.
	Running bool
	Series  map[string]float64
	// Open are the files of the data folder that others than their owner may read or write, and the folder where others may change
	// what is in it. OpenToGroup are not among them: those that beside the owner only a group of the process that looked may.
	Open, OpenToGroup []string
	// Listed is the folder where others may look into it and do no more. Lent is the folder where others may look into it and its
	// owner is not the node: that may not change its mode, and may be one of the others. LentToAll says that every user of a machine,
	// and not only of a container, may change what is in it.
	Listed, Lent string
	LentToAll    bool
	Memory       *Memory
}

// Files bounds open files: of the node, or else of who looked, and what the configuration's connections need.
type Files struct {
	Limit, Connections int64
	Elsewhere          bool // Limit is not the node's
}

// Clock is what the system says of its own.
type Clock struct{ Synchronized bool }

// Certificate is one of the configuration.
type Certificate struct {
	Key     string
	Expires time.Time
	Problem string // why it cannot be used
}

// Memory is what the node may use of the machine's, or else who looked, and what the configured models may take of it.
type Memory struct {
	Bytes, Models int64
	Elsewhere     bool // Bytes is not the node's
}

// lookedAt says whose limit was looked at, where it is not the node's.
func lookedAt(elsewhere bool) string {
	if elsewhere {
		return " (of this command: no node said its own)"
	}
	return ""
}

// filesBeside is what a node opens beside connections.
const filesBeside = 128

// The bounds of the rules.
const (
	syncWarn, syncFail               = 20 * time.Millisecond, 200 * time.Millisecond
	certificateWarn, certificateFail = 21 * 24 * time.Hour, 3 * 24 * time.Hour
	backupWarn                       = 48 * time.Hour
)

// Examine judges all that was measured, in the order of the checks.
func Examine(f Facts) (all []Finding) {
	add := func(check string, state State, measured, do string) {
		if state == OK {
			do = ""
		}
		all = append(all, Finding{check, state, measured, do})
	}
	examineConfig(f, add)
	examineMachine(f, add)
	for _, c := range f.Certificates {
		examineCertificate(c, f.Now, add)
	}
	examineData(f, add)
	examineNode(f, add)
	return all
}

type adder func(check string, state State, measured, do string)

func examineConfig(f Facts, add adder) {
	switch {
	case len(f.ConfigProblems) > 0:
		add("configuration", Fail, strings.Join(f.ConfigProblems, "; "),
			"correct the file, the variables or the flags; a start and a reload refuse it")
	case len(f.Contexts) > 0:
		state, then := Fail, "the next start fails"
		if f.ContextsElsewhere {
			state, then = Warn, "the next start fails unless the node has more memory"
		}
		add("configuration", state, strings.Join(f.Contexts, "; ")+lookedAt(f.ContextsElsewhere),
			"set one of the keys that it names; "+then)
	default:
		add("configuration", OK, "it is valid", "")
	}
}

// worse is Warn or Fail by two bounds.
func worse[N int64 | time.Duration](value, warn, fail N) State {
	switch {
	case value > fail:
		return Fail
	case value > warn:
		return Warn
	}
	return OK
}

func examineMachine(f Facts, add adder) {
	if n := f.Files; n != nil {
		state := OK
		if n.Limit < n.Connections+filesBeside {
			state = Warn
		}
		add("open files", state, fmt.Sprintf("the limit is %d, limits.connections_max is %d", n.Limit, n.Connections)+lookedAt(n.Elsewhere),
			fmt.Sprintf("raise the limit (ulimit -n, LimitNOFILE=) to %d, or lower limits.connections_max", n.Connections+filesBeside))
	}
	if f.HugePages != nil {
		state := OK
		if *f.HugePages == "never" {
			state = Warn
		}
		add("transparent huge pages", state, *f.HugePages,
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: decoding reads memory faster, and weights are not page cache")
	}
	if m := f.Memory; m != nil {
		percent := m.Models * 100 / max(m.Bytes, 1)
		add("memory", worse(percent, 90, 100),
			fmt.Sprintf("%s, of which the models may take %s (%d %%)", size(m.Bytes), size(m.Models), percent)+lookedAt(m.Elsewhere),
			"lower models.ID.kv.memory_bytes and kv.state_memory_bytes; "+
				"with 0 each model takes up to a quarter and an eighth of the machine")
	}
	switch {
	case f.SyncError != "":
		add("disk sync", Fail, f.SyncError, "the data folder must be on a disk that takes writes")
	case len(f.Sync) > 0:
		sorted := slices.Sorted(slices.Values(f.Sync))
		median := sorted[len(sorted)/2]
		add("disk sync", worse(median, syncWarn, syncFail),
			fmt.Sprintf("%v for a small write, at most %v", median.Round(10*time.Microsecond),
				sorted[len(sorted)-1].Round(10*time.Microsecond)),
			"put the data folder on a faster disk: every answer waits for one sync")
	}
	if f.ClockProblem != "" {
		add("clock", Warn, "this process may not ask the system, as under the unit: "+f.ClockProblem,
			"run corenode doctor in a shell, which says whether it is synchronized")
	}
	if f.Clock != nil {
		state, says := OK, "it is synchronized"
		if !f.Clock.Synchronized {
			state, says = Warn, "the system says that it is not synchronized"
		}
		add("clock", state, says, "run chrony or systemd-timesyncd: charges, budgets and expiries go by it")
	}
}

func examineCertificate(c Certificate, now time.Time, add adder) {
	check := "certificate of " + c.Key
	if c.Problem != "" {
		add(check, Fail, c.Problem, "put a chain and its key in PEM there; a start refuses this pair, a running node keeps the one before")
		return
	}
	left := c.Expires.Sub(now)
	state := worse(-left, -certificateWarn, -certificateFail)
	says := fmt.Sprintf("it expires on %s, in %d days", c.Expires.UTC().Format(time.DateOnly), int(left.Hours()/24))
	if left <= 0 {
		says = "it expired on " + c.Expires.UTC().Format(time.DateOnly)
	}
	add(check, state, says, "replace both files; the node takes them within a minute")
}

func examineData(f Facts, add adder) {
	if f.Unreadable != "" {
		do := "run it as the user of the node, or as root"
		if f.NoFolder {
			do = "name the node's folder, in data_dir or with --data-dir"
		}
		add("data folder", Fail, f.Unreadable, do)
		return
	}
	if len(f.Open) > 0 {
		add("data folder", Fail, "others may read or write "+strings.Join(f.Open, ", "),
			"chmod go= them: the folder holds hashed keys and the node's secret")
	} else if len(f.OpenToGroup) > 0 {
		add("data folder", Warn, "the group of this process may read or write "+strings.Join(f.OpenToGroup, ", "),
			"chmod g= them, or see that nobody else is of the group: fsGroup of a Kubernetes volume opens all files to it")
	} else if f.Listed != "" {
		add("data folder", Warn, "others may see the names of what is in "+f.Listed, "chmod go= it")
	} else if f.Database && f.Lent == "" {
		add("data folder", OK, "only its owner may read it", "")
	}
	if f.LentToAll {
		add("data folder", Fail, f.Lent+" is another user's than the node's, and every user of the machine may change what is in it",
			"give it to the user of the node with chown, and then chmod go= it, which alone may shut the node out")
	} else if f.Lent != "" {
		add("data folder", Warn, f.Lent+" is another user's than the node's, and others may look into it or change what is in it",
			"see that nobody else has the volume, and do not chmod it, which may shut the node out. A new node is better run on a folder "+
				"in it, which it makes for itself alone: data_dir or CORENODE_DATA_DIR is "+filepath.Join(f.Lent, "node")+
				" then. One that has served would start there without its accounts")
	}
	if f.SpillProblem != "" {
		add("spill journal", Fail, f.SpillProblem, "no node starts on it: `open spill journal` in the playbook")
	} else if f.Spilled > 0 {
		add("spill journal", Warn, fmt.Sprintf("it has %d rows of the ledger that the database does not have", f.Spilled),
			"start the node, which brings them there; until then keep the folder, with spill.journal")
	}
	if !f.Database || f.Owner != "" {
		return
	}
	if f.DatabaseProblem != "" && f.DatabaseUnmerged {
		add("database", Warn, f.DatabaseProblem, "start the node, which takes that in; if it does not start, restore a backup")
		return
	}
	if f.DatabaseProblem != "" {
		add("database", Fail, f.DatabaseProblem, "no node starts on it: give it to the user of the node, take the binary that wrote it, "+
			"or restore a backup: the playbook in OPERATING has the database that is lost or damaged")
		return
	}
	const do = "corenode backup FILE, every day, and keep the files on another machine"
	if f.LastBackup.IsZero() {
		add("backup", Warn, "none was ever made with corenode backup", do)
		return
	}
	age := f.Now.Sub(f.LastBackup)
	if age < 0 {
		add("backup", Warn, "the last one is of "+f.LastBackup.UTC().Format(time.RFC3339)+", after the time that the clock says",
			"set the clock; where it is right it was ahead then, and how old the backup is cannot be said: make another one")
		return
	}
	state := OK
	if age > backupWarn {
		state = Warn
	}
	add("backup", state, fmt.Sprintf("the last one is of %s, %.0f hours ago", f.LastBackup.UTC().Format(time.RFC3339), age.Hours()), do)
}

// slotMissing is also above 0 after a start, until what was chosen is loaded.
const slotMissing = "corenode_module_slot_missing"

// conditions are those of alerts that one look at the metrics can see.
var conditions = []struct {
	check, series string
	state         State
	zero          bool // it holds where the series is 0, else where it is above
	says, do      string
}{
	{"ledger", "corenode_ledger_spilled_rows", Fail, false, "rows wait in the spill journal",
		"see the disk, or with store.url the database: LedgerSpilled in OPERATING"},
	{"refunds", "corenode_unrefunded_total", Fail, false, "charges were not taken back since the start",
		"refund them by hand, see the playbook"},
	{"panics", "corenode_panics_total", Warn, false, "handlers failed since the start", "the log has their stacks"},
	{"actors", "corenode_actor_failures_total", Warn, false, "actors failed since the start", "the log has their stacks"},
	{"models", "corenode_model_down", Fail, false, "models failed too often and refuse every request",
		"restart the node; the log has their stacks: `model ... is down` in the playbook"},
	{"modules", "corenode_module_failed", Fail, false, "modules are out of service", "corenode module list says why"},
	{"modules", slotMissing, Fail, false, "slots lack what was chosen for them",
		"corenode module activate, or rollback"},
	{"modules", "corenode_modules_state_damaged", Warn, false,
		"the start did not find the modules' state whole: what was changed last may be undone",
		"corenode module list says what serves; module activate ends this"},
	{"cluster", "corenode_cluster_admits", Fail, true, "the node lost its place among those of its database, and admits nothing",
		"corenode cluster nodes; see whether the database answers"},
	{"cluster", "corenode_cluster_taken", Fail, false, "another process runs as this node, which admits nothing",
		"end one of the two: its data folder is a copy, and needs its node.id removed"},
	{"cluster", "corenode_cluster_differences", Warn, false, "live nodes have other models or prices", "corenode cluster nodes says which"},
	{"upstreams", "corenode_upstream_replicas_up", Fail, true, "a model has no server that answers", "corenode upstream list says why"},
}

func examineNode(f Facts, add adder) {
	if f.Unreadable != "" {
		return
	}
	if f.FolderUnknown {
		add("node", Warn, "its data folder is not known", "correct the configuration, or name the folder with --data-dir")
		return
	}
	if f.Owner != "" {
		add("node", Fail, f.Owner+" has the folder and does not answer: it starts, ends or hangs",
			"wait for a start or an end; else end it: `the admin address does not answer` in the playbook")
		return
	}
	if !f.Running {
		add("node", Warn, "none answers for this data folder", "start it, or name its folder with --data-dir")
		return
	}
	add("node", OK, "it answers", "")
	for _, c := range conditions {
		if c.series == slotMissing && f.Series["corenode_modules_loading"] > 0 {
			c.state, c.says, c.do = Warn, "modules are still being loaded after the start", "look again in a minute"
		}
		total, least, found := 0.0, 0.0, false
		for name, value := range f.Series {
			if base, _, _ := strings.Cut(name, "{"); base == c.series {
				total += value
				if !found || value < least {
					least = value
				}
				found = true
			}
		}
		if holds := found && (c.zero && least == 0 || !c.zero && total > 0); holds {
			add(c.check, c.state, fmt.Sprintf("%s (%s is %g)", c.says, c.series, map[bool]float64{true: least, false: total}[c.zero]), c.do)
		}
	}
}

func size(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
