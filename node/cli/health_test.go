package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHealth: the status says whether the node at the configured address is ready, with TLS too.
func TestHealth(t *testing.T) {
	ready := true
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	plain, encrypted := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer encrypted.Close()
	health := func(url, more string) error {
		file := filepath.Join(t.TempDir(), "c.yaml")
		_, address, _ := strings.Cut(url, "://")
		if err := os.WriteFile(file, []byte("listen: "+address+"\n"+more), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := Root("test", nil)
		cmd.SetArgs([]string{"health", "--config", file})
		return cmd.Execute()
	}
	for url, more := range map[string]string{plain.URL: "", encrypted.URL: "server: {tls_certificate: a, tls_key: b}\n"} {
		ready = true
		if err := health(url, more); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		ready = false
		if err := health(url, more); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%s, not ready: %v", url, err)
		}
	}
	if err := health("http://127.0.0.1:1", ""); err == nil {
		t.Error("nobody answers, and all is well")
	}
}

// TestBashCompletes: a real bash completes commands, their verbs and flags by what the program prints.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash on this machine")
	}
	dir := t.TempDir()
	var script bytes.Buffer
	cmd := Root("test", nil)
	cmd.SetOut(&script)
	cmd.SetArgs([]string{"completion", "bash"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	// The program that the script asks is this test.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := "#!" + bash + "\nexec '" + self + "' -test.run='^TestCompleteHelper$' -- \"$@\"\n"
	for name, text := range map[string]string{"corenode": program, "completion": script.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// What bash-completion's library would set, for the words that are typed.
	const ask = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[$COMP_CWORD]}; prev=${COMP_WORDS[$((COMP_CWORD-1))]}; }
__ltrim_colon_completions() { :; }
source completion
COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_corenode
printf '%s\n' "${COMPREPLY[@]}"`
	for _, c := range []struct{ typed, want string }{{"corenode acc", "account"}, {"corenode account top", "topup"},
		{"corenode key create --bud", "--budget"}, {"corenode completion z", "zsh"}} {
		run := exec.Command(bash, append([]string{"-c", ask, "bash"}, strings.Fields(c.typed)...)...)
		run.Dir, run.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CORENODE_TEST_COMPLETE=1")
		out, err := run.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q is completed to %q, %v; want %q", c.typed, out, err, c.want)
		}
	}
}

// TestCompleteHelper is the program that TestBashCompletes runs.
func TestCompleteHelper(t *testing.T) {
	if os.Getenv("CORENODE_TEST_COMPLETE") == "" {
		t.Skip("a part of TestBashCompletes")
	}
	args := os.Args
	for len(args) > 0 && args[0] != "--" {
		args = args[1:]
	}
	cmd := Root("test", nil)
	cmd.SetArgs(args[1:])
	cmd.SetOut(os.Stdout)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	os.Exit(0) // before the framework prints its own lines
}
