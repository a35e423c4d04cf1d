package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/engine/embedded"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/doctor"
	"corenode/node/store"
	"corenode/node/store/sqlite"
)

// examined runs the command, and returns what it found and its error.
func examined(t *testing.T, args ...string) (map[string]doctor.Finding, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := DoctorCommand(func() int64 { return 64 << 30 })
	cmd.SetOut(&out)
	cmd.SetArgs(append(args, "--json"))
	cmd.SilenceErrors = true
	failed := cmd.Execute()
	var all []doctor.Finding
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	found := map[string]doctor.Finding{}
	for _, f := range all {
		found[f.Check] = f
	}
	return found, failed
}

// TestDoctorCommand: it measures a data folder with and without a node, sees a backup that was made, and
// says with its status that something fails.
func TestDoctorCommand(t *testing.T) {
	t.Setenv("CORENODE_DATA_DIR", "")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	found, _ := examined(t, "--data-dir", filepath.Join(dir, "none"))
	if found["node"].State != doctor.Warn || found["disk sync"].State != "" || found["memory"].State != doctor.OK {
		t.Errorf("before there is a folder: %+v", found)
	}
	mustRun := func(args ...string) {
		t.Helper()
		cmd := Root("test", nil)
		cmd.SetArgs(args)
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	mustRun("account", "create", "a", "--data-dir", dir)
	found, _ = examined(t, "--data-dir", dir)
	if found["backup"].State != doctor.Warn || found["data folder"].State != doctor.OK || found["disk sync"].Measured == "" {
		t.Errorf("without a backup: %+v", found)
	}
	lock := filepath.Join(dir, "lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if examined(t, "--data-dir", dir); isThere(lock) {
		t.Error("a look at a folder without a node opens its database for writing")
	}
	mustRun("backup", filepath.Join(t.TempDir(), "b.db"), "--data-dir", dir)
	if found, _ = examined(t, "--data-dir", dir); found["backup"].State != doctor.OK {
		t.Errorf("after a backup: %+v", found["backup"])
	}
	if err := os.Chmod(dir, 0o757); err != nil {
		t.Fatal(err)
	}
	found, err := examined(t, "--data-dir", dir)
	if found["data folder"].State != doctor.Fail || err == nil || !strings.Contains(err.Error(), "checks fail") {
		t.Errorf("a folder that others change: %+v, %v", found["data folder"], err)
	}
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("no_such_key: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err = examined(t, "--config", bad, "--data-dir", dir); err == nil || found["configuration"].State != doctor.Fail {
		t.Errorf("a bad configuration: %+v, %v", found["configuration"], err)
	}
}

// TestDoctorOfAFolderThatCannotBeSeen: of a node behind a path that cannot be followed nothing is known, and nobody is told to
// start it.
func TestDoctorOfAFolderThatCannotBeSeen(t *testing.T) {
	dir := t.TempDir()
	file, loop := filepath.Join(dir, "file"), filepath.Join(dir, "loop")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	for path, do := range map[string]string{file: "--data-dir", filepath.Join(file, "data"): "--data-dir", loop: "--data-dir",
		sealed(t): "run it as the user"} {
		if path == "" { // root may look
			continue
		}
		found, err := examined(t, "--data-dir", path)
		folder := found["data folder"]
		if err == nil || folder.State != doctor.Fail || !strings.Contains(folder.Do, do) || found["node"].State != "" {
			t.Errorf("%s: %+v, %v", path, found, err)
		}
	}
}

// sealed is a folder that this process cannot see, or nothing where there is none for it.
func sealed(t *testing.T) string {
	t.Helper()
	around := filepath.Join(t.TempDir(), "around")
	if err := os.MkdirAll(filepath.Join(around, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(around, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(around, 0o700) })
	if _, err := os.Stat(filepath.Join(around, "data")); err == nil {
		return ""
	}
	return filepath.Join(around, "data")
}

// TestDoctorOfABadConfiguration: with a mistake the folder is still the one that file and variables name. Where they cannot say,
// no other is looked at.
func TestDoctorOfABadConfiguration(t *testing.T) {
	dir := t.TempDir()
	startNode(t, dir)
	file := filepath.Join(t.TempDir(), "bad.yaml")
	for name, c := range map[string]struct {
		text, variable string
		node           string // what is said of it
	}{
		"of the file":         {"data_dir: " + dir + "\nno_such_key: 1\n", "", "it answers"},
		"of the variable":     {"no_such_key: 1\n", dir, "it answers"},
		"of it without YAML":  {"limits: {\n", dir, "it answers"},
		"of a file, not YAML": {"data_dir: " + dir + "\nlimits: {\n", "", "not known"},
		"of another folder":   {"data_dir: " + t.TempDir() + "\nno_such_key: 1\n", "", "none answers"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CORENODE_DATA_DIR", c.variable)
		if c.variable == "" {
			os.Unsetenv("CORENODE_DATA_DIR")
		}
		found, err := examined(t, "--config", file)
		if err == nil || found["configuration"].State != doctor.Fail || !strings.Contains(found["node"].Measured, c.node) {
			t.Errorf("%s: %+v, %v; want that it says %q of the node", name, found["node"], err, c.node)
		}
		if looked := found["disk sync"].Measured != ""; looked != (c.node != "not known") {
			t.Errorf("%s: a folder is looked at: %v", name, looked)
		}
	}
}

// TestDoctorOfARefusedFolder: a configuration whose start would be refused, since the unit's folder has the accounts, is said to be bad.
func TestDoctorOfARefusedFolder(t *testing.T) {
	served, fresh := t.TempDir(), filepath.Join(t.TempDir(), "fresh")
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := errors.Join(os.WriteFile(filepath.Join(served, "corenode.db"), nil, 0o600),
		os.WriteFile(file, []byte("data_dir: "+fresh+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CORENODE_DATA_DIR_DEFAULT", served)
	found, err := examined(t, "--config", file)
	if c := found["configuration"]; err == nil || c.State != doctor.Fail || !strings.Contains(c.Measured, served) {
		t.Errorf("%+v, %v", c, err)
	}
	if found, _ := examined(t, "--config", file, "--data-dir", fresh); found["configuration"].State != doctor.OK {
		t.Errorf("with the folder given: %+v", found["configuration"])
	}
}

// TestDoctorOfANodeThatDoesNotAnswer: of one that has the folder nobody is told to start it, and what it may be about to write is
// not judged.
func TestDoctorOfANodeThatDoesNotAnswer(t *testing.T) {
	t.Setenv("CORENODE_DATA_DIR", "")
	dir := t.TempDir()
	if _, err := typed("account", "create", "a", "--data-dir", dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, store.SpillName), []byte("something else, for long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	found, failed := examined(t, "--data-dir", dir)
	f := found["node"]
	if who := fmt.Sprintf("process %d has the folder", os.Getpid()); failed == nil || f.State != doctor.Fail || !strings.Contains(f.Measured, who) ||
		strings.Contains(f.Do, "start it") {
		t.Errorf("a folder that a process has: %+v, %v", f, failed)
	}
	if found["backup"].State != "" || found["spill journal"].State != "" {
		t.Errorf("judged while a process writes it: %+v, %+v", found["backup"], found["spill journal"])
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if found, _ = examined(t, "--data-dir", dir); found["node"].State != doctor.Warn || found["spill journal"].State != doctor.Fail {
		t.Errorf("when the process has ended: %+v, %+v", found["node"], found["spill journal"])
	}
}

// TestDoctorOfLeftRows: the rows that a node left in its journal are said while none runs on the folder, whether its other rows
// are there or elsewhere, and nothing of the journal changes.
func TestDoctorOfLeftRows(t *testing.T) {
	dir := t.TempDir()
	journal, err := store.OpenSpill(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := examined(t, "--data-dir", dir); found["spill journal"].State != "" {
		t.Errorf("an empty journal: %+v", found["spill journal"])
	}
	err = journal.Append([]account.Entry{{Kind: account.Settlement, RequestID: "a"}, {Kind: account.Settlement, RequestID: "b"}})
	if err = errors.Join(err, journal.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, store.SpillName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := examined(t, "--data-dir", dir)
	if f := found["spill journal"]; f.State != doctor.Warn || !strings.Contains(f.Measured, "2 rows") {
		t.Errorf("a journal with two rows: %+v", f)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a look changed the journal: %v", err)
	}
	if err := os.WriteFile(path, []byte("something else, for long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := examined(t, "--data-dir", dir); err == nil || found["spill journal"].State != doctor.Fail {
		t.Errorf("a journal that is none: %+v, %v", found["spill journal"], err)
	}
}

// TestDoctorOfADatabaseThatCannotBeOpened: what a start would refuse fails, and what a start may still mend does not.
func TestDoctorOfADatabaseThatCannotBeOpened(t *testing.T) {
	t.Setenv("CORENODE_DATA_DIR", "")
	made := t.TempDir()
	if _, err := typed("account", "create", "a", "--data-dir", made); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(filepath.Join(made, sqlite.DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(file []byte) []byte) []byte { return change(bytes.Clone(sound)) }
	for name, c := range map[string]struct {
		file, wal []byte
		state     doctor.State
		says      string
	}{
		"sound":                {sound, nil, "", ""},
		"empty":                {nil, nil, "", ""}, // a start that was killed at once
		"garbage":              {bytes.Repeat([]byte("x"), 8192), nil, doctor.Fail, "not a database"},
		"garbage with a WAL":   {bytes.Repeat([]byte("x"), 8192), []byte("x"), doctor.Fail, "not a database"},
		"malformed":            {with(func(b []byte) []byte { clear(b[100:4096]); return b }), nil, doctor.Fail, "malformed"},
		"half of a checkpoint": {with(func(b []byte) []byte { clear(b[100:4096]); return b }), []byte("x"), doctor.Warn, "crash"},
		"newer":                {with(func(b []byte) []byte { b[62] = 1; return b }), nil, doctor.Fail, "newer than this binary"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, sqlite.DatabaseName), c.file, 0o600))
		if c.wal != nil {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, sqlite.DatabaseName+"-wal"), c.wal, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		found, failed := examined(t, "--data-dir", dir)
		got := found["database"]
		if got.State != c.state || !strings.Contains(got.Measured, c.says) || (found["backup"].State != "") != (c.state == "") {
			t.Errorf("%s: %+v, and of the backup %+v", name, got, found["backup"])
		}
		if (c.state == doctor.Fail) != (failed != nil) {
			t.Errorf("%s: %v", name, failed)
		}
	}
}

// TestDoctorReadsNoAuditWithoutNeed: a node without a database in its folder is not asked for its last backup, for which all of
// its audit may be read.
func TestDoctorReadsNoAuditWithoutNeed(t *testing.T) {
	dir, shares := t.TempDir(), t.TempDir()
	startNode(t, dir)
	c, err := admin.Dial(dir)
	if err == nil {
		_, err = c.Backup(filepath.Join(t.TempDir(), "b.db"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if lock, err := store.LockFolder(shares); err != nil {
		t.Fatal(err)
	} else {
		t.Cleanup(func() { lock.Close() })
	}
	for _, name := range []string{"admin.addr", "admin.token"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(shares, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for folder, asked := range map[string]bool{dir: true, shares: false} {
		cfg := config.Default()
		cfg.DataDir = folder
		if f := measureNode(cfg); !f.Running || f.Database != asked || f.LastBackup.IsZero() == asked {
			t.Errorf("database %v, running %v, last backup %v; want it of the one with a database", f.Database, f.Running, f.LastBackup)
		}
	}
}

// TestDoctorTakesTheNodesLimits: a service has other ones than the shell beside it. Without a node those of this
// process are looked at, and are not called the node's.
func TestDoctorTakesTheNodesLimits(t *testing.T) {
	dir := answering(t, map[string]string{"GET /metrics": "process_max_fds 321\ncorenode_memory_limit_bytes 1.073741824e+09\n"})
	cfg := config.Default()
	cfg.DataDir = dir
	f := Measure(cfg, 64<<30)
	if f.Files == nil || f.Files.Limit != 321 || f.Files.Elsewhere || f.Memory.Bytes != 1<<30 || f.Memory.Elsewhere {
		t.Errorf("beside a node: %+v, %+v", f.Files, f.Memory)
	}
	cfg.DataDir = t.TempDir()
	f = Measure(cfg, 64<<30)
	if f.Files != nil && !f.Files.Elsewhere || f.Memory.Bytes != 64<<30 || !f.Memory.Elsewhere {
		t.Errorf("without a node: %+v, %+v", f.Files, f.Memory)
	}
}

// TestMemoryOfModels: what is measured is what the node takes, on a small machine too.
func TestMemoryOfModels(t *testing.T) {
	cfg := &config.Config{Models: map[string]config.Model{
		"automatic": {Engine: config.EngineCPU},
		"set":       {Engine: config.EngineCPU, KV: config.KV{MemoryBytes: 5, StateMemoryBytes: 7}},
		"elsewhere": {Engine: config.EngineInstant},
	}}
	for memory, want := range map[int64]int64{1 << 30: config.PageBytesMin + 12, 64 << 30: 16<<30 + 12} {
		if got := modelBytes(cfg, memory); got != want {
			t.Errorf("of %d bytes: %d, want %d", memory, got, want)
		}
	}
	// Pages beyond four windows nobody fills: of an embedded model, whose windows are as long as they are, and of a file.
	one := func(id string, m config.Model) *config.Config {
		m.Engine, m.KV = config.EngineCPU, config.KV{PageTokens: 32, DType: "f16"}
		return &config.Config{Models: map[string]config.Model{id: m}}
	}
	const page = 2 * 2 * 32 * 4 * 6 * 32 // OPERATING's example, with a layer that predicts
	if got, want := modelBytes(one("core-1.1-mini", config.Model{}), 1<<40), int64(4*262144/32*page); got != want {
		t.Errorf("an embedded model: %d, want %d", got, want)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, embedded.Model("core-1.1-mini"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := int64(len(embedded.Model("core-1.1-mini"))) + 4*1024/32*page
	if got := modelBytes(one("m", config.Model{Path: path, ContextLength: 1024}), 1<<40); got != want {
		t.Errorf("a file's model with a window of 1,024: %d, want %d", got, want)
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestPageLockedMemoryOfAGPUsModelsCounts: the machine has to have it, and can swap none of it.
func TestPageLockedMemoryOfAGPUsModelsCounts(t *testing.T) {
	cfg := &config.Config{Models: map[string]config.Model{
		"gpu": {Engine: config.EngineCUDA, KV: config.KV{MemoryBytes: 7, StateMemoryBytes: 9, HostStateMemoryBytes: 200 << 30}},
		"cpu": {Engine: config.EngineCPU, KV: config.KV{MemoryBytes: 1 << 30, HostStateMemoryBytes: 3}},
	}}
	if got := modelBytes(cfg, 128<<30); got != 201<<30 {
		t.Errorf("the models may take %d bytes, want %d", got, int64(201<<30))
	}
}
