package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/admin"
	"corenode/node/operators"
	"corenode/node/store"
)

// answering makes the data folder of a running node that has no database in it, as one whose rows are in
// PostgreSQL, and that gives one answer to each call.
func answering(t *testing.T, answers map[string]string) (dir string) {
	t.Helper()
	return answeringBy(t, func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.Method+" "+r.URL.Path]
		if !known {
			t.Errorf("it was asked %s %s", r.Method, r.URL)
		}
		_, _ = w.Write([]byte(answer))
	})
}

// answeringBy is answering by a handler, which is not asked for the status.
func answeringBy(t *testing.T, answer http.HandlerFunc) (dir string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/v1/status", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	mux.Handle("/", answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	dir = t.TempDir()
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if _, err := admin.Announce(dir, strings.TrimPrefix(server.URL, "http://"), operators.NewToken(), ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNodeWithoutADatabaseIsNotNew: the folder of a node whose rows are in PostgreSQL has no database.
func TestNodeWithoutADatabaseIsNotNew(t *testing.T) {
	dir := answering(t, map[string]string{"GET /admin/v1/accounts": `{"data":[]}`})
	var warned strings.Builder
	if out, err := typedTo(&warned, "account", "list", "--data-dir", dir); err != nil || warned.Len() > 0 {
		t.Errorf("%q, %v, and it warned %q", out, err, &warned)
	}
}

// TestWhatIsMissingIsInTheJSON: a command that says with its status that not all was done prints its JSON all the
// same, with the member that says so; without --json it prints the error alone.
func TestWhatIsMissingIsInTheJSON(t *testing.T) {
	const late = `{"digest":"sha256:ab","note":"it carries no golden vectors; nodes that do not follow yet: node_b, node_c"}`
	dir := answering(t, map[string]string{
		"POST /admin/v1/reload":          `{"changed":[],"wait_for_restart":[],"problems":["listen is wrong"]}`,
		"POST /admin/v1/keys/k/revoke":   `{"id":"k","unaware_nodes":["node_b"]}`,
		"PATCH /admin/v1/accounts/alice": `{"id":"a","unaware_nodes":["node_b"]}`,

		"POST /admin/v1/modules":                    late,
		"POST /admin/v1/modules/sha256:ab/activate": late,
		"POST /admin/v1/modules/m/activate":         late,
		"POST /admin/v1/modules/m/enable":           late,
		"POST /admin/v1/modules/m/disable":          late,
		"POST /admin/v1/modules/m/canary":           late,
		"POST /admin/v1/modules/m/shadow":           late,
		"POST /admin/v1/slots/billing/rollback":     late,
	})
	file := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(file, []byte("m"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"reload"}, "listen is wrong"},
		{[]string{"key", "revoke", "k"}, "node_b"},
		{[]string{"account", "disable", "alice"}, "node_b"},
		{[]string{"module", "load", file, "--activate"}, "node_b, node_c"},
		{[]string{"module", "activate", "m"}, "node_b, node_c"},
		{[]string{"module", "enable", "m"}, "node_b, node_c"},
		{[]string{"module", "disable", "m"}, "node_b, node_c"},
		{[]string{"module", "canary", "m", "10"}, "node_b, node_c"},
		{[]string{"module", "shadow", "m", "10"}, "node_b, node_c"},
		{[]string{"module", "rollback", "billing"}, "node_b, node_c"},
	} {
		line := append(c.line, "--data-dir", dir)
		if out, err := typed(line...); err == nil || out != "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %q, %v", c.line, out, err)
		}
		if out, err := typed(append(line, "--json")...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v --json: %q, %v", c.line, out, err)
		}
	}
}

// TestNotesOfModulesAreSaid: what to know of a module that was taken is printed, and is no failure.
func TestNotesOfModulesAreSaid(t *testing.T) {
	dir := answering(t, map[string]string{
		"POST /admin/v1/modules/m/activate": `{"digest":"sha256:ab","state":"active","note":"it carries no golden vectors"}`})
	out, err := typed("module", "activate", "m", "--data-dir", dir)
	if err != nil || !strings.Contains(out, "\nNote: it carries no golden vectors.\n") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestReloadSaysAllThatCameOfIt: a certificate that cannot be used is a failure beside what is in force.
func TestReloadSaysAllThatCameOfIt(t *testing.T) {
	dir := answering(t, map[string]string{
		"POST /admin/v1/reload": `{"changed":["log.level"],"wait_for_restart":[],"problems":["server.tls_certificate: the key is another's"]}`})
	for _, line := range [][]string{{"reload"}, {"reload", "--json"}} {
		out, err := typed(append(line, "--data-dir", dir)...)
		if err == nil || !strings.Contains(err.Error(), "server.tls_certificate") || !strings.Contains(out, "log.level") || strings.Contains(err.Error(), "nothing") {
			t.Errorf("%v: %q, %v", line, out, err)
		}
	}
}

// TestReloadBlamesWhatIsAtFault: a database that does not take new prices is no mistake of the configuration.
func TestReloadBlamesWhatIsAtFault(t *testing.T) {
	dir := answering(t, map[string]string{
		"POST /admin/v1/reload": `{"changed":[],"wait_for_restart":[],"problems":["read the common prices: connection refused"]}`})
	const want = "nothing has changed:\n  read the common prices: connection refused"
	if _, err := typed("reload", "--data-dir", dir); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestReloadByTheConfiguration: the file of a node says where it is, whatever else is wrong in it.
func TestReloadByTheConfiguration(t *testing.T) {
	t.Setenv("CORENODE_DATA_DIR", "") // put back at the end
	os.Unsetenv("CORENODE_DATA_DIR")
	dir := answering(t, map[string]string{"POST /admin/v1/reload": `{"changed":["log.level"],"wait_for_restart":[]}`})
	file := filepath.Join(t.TempDir(), "c.yaml")
	for _, c := range []struct{ text, says string }{
		{"data_dir: " + dir + "\nno_such_key: 1\n", ""}, {"data_dir: [a]\n", "data_dir is of type sequence"}, {"limits: {\n", "not valid YAML"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := typed("reload", "--config", file)
		if c.says == "" && (err != nil || !strings.Contains(out, "log.level")) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q: %q, %v", c.text, out, err)
		}
	}
	another := t.TempDir()
	if err := os.WriteFile(file, []byte("data_dir: "+another+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("reload", "--config", file); err == nil || !strings.Contains(err.Error(), another) ||
		!strings.Contains(err.Error(), "--data-dir") || strings.Contains(err.Error(), "account") {
		t.Errorf("a folder for the next start: %v", err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile(file, []byte("log: {level: info}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("reload", "--config", file); err == nil || !strings.Contains(err.Error(), file+" names none") {
		t.Errorf("a folder that nothing names, from another directory: %v", err)
	}
	t.Setenv("CORENODE_DATA_DIR_DEFAULT", another)
	if _, err := typed("reload", "--config", file); err == nil || !strings.Contains(err.Error(), "CORENODE_DATA_DIR_DEFAULT names") {
		t.Errorf("a folder that a variable names: %v", err)
	}
	if err := os.WriteFile(file, []byte("limits: {\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("reload", "--config", file, "--data-dir", dir); err != nil {
		t.Errorf("the folder given beside a file that is no YAML: %v", err)
	}
	t.Setenv("CORENODE_DATA_DIR_DEFAULT", dir)
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"reload", "--config", file}, {"reload"}} {
		if _, err := typed(line...); err != nil {
			t.Errorf("%q in a service whose unit names the folder: %v", line, err)
		}
	}
}

// TestModelsThatTheNodeDoesNotServeAreSaid: a mistyped id leaves an account or a key without any model.
func TestModelsThatTheNodeDoesNotServeAreSaid(t *testing.T) {
	dir := answering(t, map[string]string{"GET /admin/v1/prices": `{"data":[{"model":"one"},{"model":"two"}]}`,
		"POST /admin/v1/accounts": `{"id":"a"}`, "PATCH /admin/v1/accounts/a": `{"id":"a"}`,
		"POST /admin/v1/accounts/a/keys": `{"id":"k"}`, "PATCH /admin/v1/keys/k": `{"id":"k"}`})
	for _, line := range [][]string{{"account", "create", "a"}, {"account", "set", "a"}, {"key", "create", "a"}, {"key", "set", "k"}} {
		for models, want := range map[string]string{"two,tow,one": "The node does not serve tow. It serves one, two.\n", "one,two": "", "": ""} {
			if line[1] == "create" && models == "" { // which is none that anything is made with
				continue
			}
			var warned strings.Builder
			if _, err := typedTo(&warned, append(line, "--models", models, "--data-dir", dir)...); err != nil || warned.String() != want {
				t.Errorf("%v --models %q warned %q, %v", line, models, &warned, err)
			}
		}
	}
}

// TestBackupElsewhere: a node may see other folders than who asks it, as the /tmp of a unit is its own. What it wrote
// there is no backup to who looks for it here, nor is a file that was here before.
func TestBackupElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.db")
	dir := answering(t, map[string]string{"POST /admin/v1/backup": `{"path":"` + file + `","modules_missing":[]}`})
	for range 2 {
		out, err := typed("backup", file, "--data-dir", dir)
		if err == nil || out != "" || !strings.Contains(err.Error(), "ReadWritePaths=") {
			t.Errorf("%q, %v", out, err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupWithoutModules: a node of an earlier version copies the database alone, which who asks it by this program is told.
func TestBackupWithoutModules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.db")
	dir := answeringBy(t, func(w http.ResponseWriter, _ *http.Request) {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte(`{"path":"` + file + `"}`))
	})
	modules := filepath.Join(dir, "modules")
	for _, c := range []struct {
		what string
		make func() error
		want string // of the error
	}{
		{"a folder that cannot be read", func() error { return os.WriteFile(modules, nil, 0o600) }, "not a directory"},
		{"a folder without modules", func() error {
			return errors.Join(os.Remove(modules), os.MkdirAll(filepath.Join(modules, "cache"), 0o700))
		}, ""},
		{"modules that are not copied", func() error { return os.WriteFile(filepath.Join(modules, "state.json"), nil, 0o600) },
			"Copy " + modules + " to " + file + ".modules"},
		{"modules that are copied", func() error { return os.Mkdir(file+".modules", 0o700) }, ""},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		out, err := typed("backup", file, "--data-dir", dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", c.what, out, err)
		}
		if err != nil && strings.Contains(err.Error(), "earlier version") != strings.Contains(c.want, "Copy") {
			t.Errorf("%s: %v", c.what, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNodesOfAnotherVersion: a node that does not know what this program asks for is of another version.
func TestNodesOfAnotherVersion(t *testing.T) {
	var status int
	var answer admin.Error
	dir := answeringBy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(admin.ErrorBody{Error: &answer})
	})
	for _, c := range []struct {
		line    string
		status  int
		kind    string
		message string
		other   bool
	}{
		{"why", 404, admin.KindNotFound, "unknown path /admin/v1/why; see /openapi.json", true},
		{"drain --look", 405, admin.KindMethod, "GET is not a verb of /admin/v1/drain", true},
		{"module replay --since 2026-01-31", 400, admin.KindInvalid, `unknown query parameter "inputs": this verb has none`, true},
		{"key create alice --budget 3", 400, admin.KindInvalid, `unknown field "budget": want expires`, true},
		{"account show alice", 404, admin.KindNotFound, "account alice: not found", false},
	} {
		status, answer = c.status, admin.Error{Kind: c.kind, Message: c.message}
		_, err := typed(append(strings.Split(c.line, " "), "--data-dir", dir)...)
		if err == nil || !strings.HasPrefix(err.Error(), c.message) || strings.Contains(err.Error(), "start the node again") != c.other {
			t.Errorf("%s: %v", c.line, err)
		}
	}
}

// TestNothingIsDoneWithoutANode: what only a running node can do is refused for a folder without one, and is no
// row of its audit that says it was done.
func TestNothingIsDoneWithoutANode(t *testing.T) {
	dir := t.TempDir() + "/data"
	if _, err := typed("account", "create", "alice", "--data-dir", dir); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"drain"}, {"drain", "--wait"}, {"drain", "--look"}, {"upstream", "list"},
		{"upstream", "drain", "http://127.0.0.1:1"}, {"upstream", "add", "m", "http://127.0.0.1:1"}} {
		if out, err := typed(append(line, "--data-dir", dir)...); err == nil || !strings.Contains(err.Error(), "needs a running node") {
			t.Errorf("%v: %q, %v", line, out, err)
		}
	}
	if rows, err := typed("audit", "--data-dir", dir); err != nil || strings.Contains(rows, "POST /drain") {
		t.Errorf("the audit, %v:\n%s", err, rows)
	}
}

// TestFolderOfTwoTruths: a folder with rows and an id of a cluster, as a failed start of an earlier version leaves it, does
// not start, so no command asks for that.
func TestFolderOfTwoTruths(t *testing.T) {
	dir := t.TempDir()
	if _, err := typed("account", "create", "alice", "--data-dir", dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "node.id"), []byte("node_0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("account", "list", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "remove node.id") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "corenode.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("account", "list", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "start it first") {
		t.Error(err)
	}
}
