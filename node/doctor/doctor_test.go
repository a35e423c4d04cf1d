package doctor

import (
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// well is a machine on which all is.
func well() Facts {
	madvise := "madvise"
	return Facts{Now: now, Files: &Files{Limit: 65536, Connections: 20000}, HugePages: &madvise,
		Sync:  []time.Duration{time.Millisecond, 3 * time.Millisecond},
		Clock: &Clock{Synchronized: true}, Certificates: []Certificate{{Key: "server.tls_certificate", Expires: now.AddDate(0, 3, 0)}},
		Database: true, LastBackup: now.Add(-time.Hour), Running: true, Memory: &Memory{Bytes: 16 << 30, Models: 8 << 30},
		Series: map[string]float64{"corenode_panics_total": 0, `corenode_upstream_replicas_up{model="a"}`: 2}}
}

// TestExamine: where all is well each line says so; each thing that is not is told from the others,
// with what was measured and what to do.
func TestExamine(t *testing.T) {
	for _, f := range Examine(well()) {
		if f.State != OK || f.Do != "" || f.Measured == "" {
			t.Errorf("where all is well: %+v", f)
		}
	}
	never := "never"
	for name, c := range map[string]struct {
		spoil func(*Facts)
		check string
		state State
		says  string
	}{
		"config":        {func(f *Facts) { f.ConfigProblems = []string{"x is y"} }, "configuration", Fail, "x is y"},
		"context":       {func(f *Facts) { f.Contexts = []string{"x holds y"} }, "configuration", Fail, "x holds y"},
		"context, here": {func(f *Facts) { f.Contexts, f.ContextsElsewhere = []string{"x holds y"}, true }, "configuration", Warn, "of this command"},
		"files":         {func(f *Facts) { f.Files.Limit = 1024 }, "open files", Warn, "the limit is 1024"},
		"huge pages":    {func(f *Facts) { f.HugePages = &never }, "transparent huge pages", Warn, "never"},
		"shell's files": {func(f *Facts) { f.Files.Limit, f.Files.Elsewhere = 1024, true }, "open files", Warn, "of this command"},
		"shell's bytes": {func(f *Facts) { f.Memory.Models, f.Memory.Elsewhere = 17<<30, true }, "memory", Fail, "of this command"},
		"tight memory":  {func(f *Facts) { f.Memory.Models = 15 << 30 }, "memory", Warn, "15.0 GiB (93 %)"},
		"no memory":     {func(f *Facts) { f.Memory.Models = 17 << 30 }, "memory", Fail, "(106 %)"},
		"slow sync":     {func(f *Facts) { f.Sync = []time.Duration{1, 30 * time.Millisecond, 40 * time.Millisecond} }, "disk sync", Warn, "30ms"},
		"stalled sync":  {func(f *Facts) { f.Sync = []time.Duration{time.Second} }, "disk sync", Fail, "1s"},
		"no disk":       {func(f *Facts) { f.SyncError = "read-only" }, "disk sync", Fail, "read-only"},
		"clock":         {func(f *Facts) { f.Clock.Synchronized = false }, "clock", Warn, "not synchronized"},
		"clock unknown": {func(f *Facts) { f.Clock, f.ClockProblem = nil, "not permitted" }, "clock", Warn, "not permitted"},
		"cert soon":     {func(f *Facts) { f.Certificates[0].Expires = now.AddDate(0, 0, 10) }, "certificate of server.tls_certificate", Warn, "in 10 days"},
		"cert now":      {func(f *Facts) { f.Certificates[0].Expires = now.AddDate(0, 0, 1) }, "certificate of server.tls_certificate", Fail, "in 1 days"},
		"cert over":     {func(f *Facts) { f.Certificates[0].Expires = now.AddDate(0, 0, -1) }, "certificate of server.tls_certificate", Fail, "it expired"},
		"cert broken":   {func(f *Facts) { f.Certificates[0].Problem = "no key" }, "certificate of server.tls_certificate", Fail, "no key"},
		"unreadable":    {func(f *Facts) { f.Unreadable, f.LastBackup, f.Running = "permission denied", time.Time{}, false }, "data folder", Fail, "permission"},
		"no folder": {func(f *Facts) {
			f.Unreadable, f.NoFolder, f.LastBackup, f.Running = "a file", true, time.Time{}, false
		}, "data folder", Fail, "a file"},
		"rights":        {func(f *Facts) { f.Open = []string{"/d/corenode.db"} }, "data folder", Fail, "/d/corenode.db"},
		"to its group":  {func(f *Facts) { f.OpenToGroup = []string{"/d", "/d/admin.token"} }, "data folder", Warn, "/d, /d/admin.token"},
		"its names":     {func(f *Facts) { f.Listed = "/d" }, "data folder", Warn, "the names of what is in /d"},
		"lent":          {func(f *Facts) { f.Lent = "/d" }, "data folder", Warn, "/d is another user's"},
		"lent to all":   {func(f *Facts) { f.Lent, f.LentToAll = "/d", true }, "data folder", Fail, "every user"},
		"no database":   {func(f *Facts) { f.DatabaseProblem, f.LastBackup = "not a database", time.Time{} }, "database", Fail, "not a database"},
		"unmerged":      {func(f *Facts) { f.DatabaseProblem, f.DatabaseUnmerged = "a crash", true }, "database", Warn, "a crash"},
		"no backup":     {func(f *Facts) { f.LastBackup = time.Time{} }, "backup", Warn, "none"},
		"old backup":    {func(f *Facts) { f.LastBackup = now.AddDate(0, 0, -3) }, "backup", Warn, "72 hours ago"},
		"no node":       {func(f *Facts) { f.Running = false }, "node", Warn, "none answers"},
		"late backup":   {func(f *Facts) { f.LastBackup = now.Add(time.Hour) }, "backup", Warn, "after the time that the clock says"},
		"hangs":         {func(f *Facts) { f.Running, f.LastBackup, f.Owner = false, time.Time{}, "process 12" }, "node", Fail, "process 12 has"},
		"left rows":     {func(f *Facts) { f.Spilled = 3 }, "spill journal", Warn, "it has 3 rows"},
		"bad journal":   {func(f *Facts) { f.SpillProblem = "the header is damaged" }, "spill journal", Fail, "header is damaged"},
		"spilled":       {func(f *Facts) { f.Series["corenode_ledger_spilled_rows"] = 3 }, "ledger", Fail, "spilled_rows is 3"},
		"model down":    {func(f *Facts) { f.Series[`corenode_model_down{model="a"}`] = 1 }, "models", Fail, "model_down is 1"},
		"panics":        {func(f *Facts) { f.Series["corenode_panics_total"] = 1 }, "panics", Warn, "panics_total is 1"},
		"out":           {func(f *Facts) { f.Series["corenode_cluster_admits"] = 0 }, "cluster", Fail, "lost its place"},
		"taken":         {func(f *Facts) { f.Series["corenode_cluster_taken"] = 1 }, "cluster", Fail, "another process"},
		"differs":       {func(f *Facts) { f.Series["corenode_cluster_differences"] = 1 }, "cluster", Warn, "other models"},
		"no server":     {func(f *Facts) { f.Series[`corenode_upstream_replicas_up{model="b"}`] = 0 }, "upstreams", Fail, "no server"},
		"slot missing":  {func(f *Facts) { f.Series[slotMissing] = 1 }, "modules", Fail, "slots lack"},
		"slot loading":  {func(f *Facts) { f.Series[slotMissing], f.Series["corenode_modules_loading"] = 1, 1 }, "modules", Warn, "still being"},
		"state damaged": {func(f *Facts) { f.Series["corenode_modules_state_damaged"] = 1 }, "modules", Warn, "did not find the modules' state whole"},
		"module failed": {func(f *Facts) { f.Series[`corenode_module_failed{slot="chat"}`] = 1 }, "modules", Fail, "out of service"},
	} {
		f := well()
		c.spoil(&f)
		bad := 0
		for _, got := range Examine(f) {
			if got.State == OK {
				continue
			}
			bad++
			if got.Check != c.check || got.State != c.state || !strings.Contains(got.Measured, c.says) || got.Do == "" {
				t.Errorf("%s: %+v, want %s of %s with %q", name, got, c.state, c.check, c.says)
			}
		}
		if bad != 1 {
			t.Errorf("%s: %d findings are not ok", name, bad)
		}
	}
}

// TestNothingMeasured: what could not be measured is not judged.
func TestNothingMeasured(t *testing.T) {
	for _, f := range Examine(Facts{Now: now}) {
		if f.Check != "configuration" && f.Check != "node" {
			t.Errorf("%+v", f)
		}
	}
}
