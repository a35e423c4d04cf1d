package cli

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/admin"
	"corenode/node/store"
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

// TestHealthLive: a node that takes no requests, or no more connections, is alive all the same.
func TestHealthLive(t *testing.T) {
	full := false
	answer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || full {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer answer.Close()
	health := func(args ...string) error {
		cmd := Root("test", nil)
		cmd.SetArgs(append([]string{"health", "--listen", answer.Listener.Addr().String()}, args...))
		return cmd.Execute()
	}
	if err := health(); err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("ready: %v", err)
	}
	for range 2 {
		if err := health("--live"); err != nil {
			t.Errorf("full %v: %v", full, err)
		}
		full = true
	}
	answer.Close()
	if health("--live") == nil {
		t.Error("nobody answers, and the node is alive")
	}
}

// TestHealthLiveOfAFolder: the admin listener of the node that has the folder says that it lives; one that has not said where that
// is starts or ends; where nobody has the folder, or it does not answer, the API is asked.
func TestHealthLiveOfAFolder(t *testing.T) {
	operators := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || r.Header.Get("Authorization") != "" {
			t.Errorf("it is asked %s, with %q", r.URL, r.Header.Get("Authorization"))
		}
	}))
	defer operators.Close()
	clients := httptest.NewServer(http.NotFoundHandler())
	defer clients.Close()
	dir := t.TempDir()
	live := func() error { return liveOf(dir) }
	t.Setenv("CORENODE_LISTEN", "127.0.0.1:1") // nobody's
	if live() == nil {
		t.Error("nobody has the folder, and its node is alive")
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := live(); err != nil {
		t.Errorf("a node that starts: %v", err)
	}
	withdraw, err := admin.Announce(dir, operators.Listener.Addr().String(), "a-token-of-the-node", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := live(); err != nil {
		t.Errorf("by the admin listener: %v", err)
	}
	operators.Close()
	if live() == nil {
		t.Error("neither listener answers, and the node is alive")
	}
	if _, err := admin.AnnounceAPI(dir, clients.URL); err != nil {
		t.Fatal(err)
	}
	if err := live(); err != nil {
		t.Errorf("by the API: %v", err)
	}
	clients.Close()
	withdraw()
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if live() == nil {
		t.Error("the process that had the folder is gone, and the node is alive")
	}
}

// liveOf asks whether the node of a folder lives.
func liveOf(dir string) error {
	cmd := Root("test", nil)
	cmd.SetArgs([]string{"health", "--live", "--data-dir", dir})
	return cmd.Execute()
}

// wantLive wants a node with these listeners to live.
func wantLive(t *testing.T, operators, clients string) {
	t.Helper()
	dir := t.TempDir()
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := admin.Announce(dir, operators, "a-token-of-the-node", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AnnounceAPI(dir, clients); err != nil {
		t.Fatal(err)
	}
	if err := liveOf(dir); err != nil {
		t.Error(err)
	}
}

// TestHealthLiveBehindAHungListener: an admin listener that says nothing leaves the API the time to answer.
func TestHealthLiveBehindAHungListener(t *testing.T) {
	t.Parallel()                                  // most of it is waiting
	hung, err := net.Listen("tcp", "127.0.0.1:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	clients := httptest.NewServer(http.NotFoundHandler())
	defer clients.Close()
	wantLive(t, hung.Addr().String(), clients.URL)
}

// TestHealthLiveOfASlowListener: an admin listener that answers after the API is asked, which says nothing, is one of a node that lives.
func TestHealthLiveOfASlowListener(t *testing.T) {
	t.Parallel() // most of it is waiting
	asked := make(chan struct{})
	clients := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	defer clients.Close()
	operators := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-asked:
		case <-r.Context().Done():
		}
	}))
	defer operators.Close()
	wantLive(t, operators.Listener.Addr().String(), clients.URL)
}

// TestHealthOfABadConfiguration: a mistake that a running node does not notice is none of its health.
func TestHealthOfABadConfiguration(t *testing.T) {
	t.Setenv("CORENODE_DATA_DIR", "") // put back at the end
	os.Unsetenv("CORENODE_DATA_DIR")
	ready := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	answer, encrypted := httptest.NewServer(ready), httptest.NewTLSServer(ready)
	defer answer.Close()
	defer encrypted.Close()
	address, dir := answer.Listener.Addr().String(), t.TempDir()
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	announce := func(base string) {
		t.Helper()
		if _, err := admin.AnnounceAPI(dir, base); err != nil {
			t.Fatal(err)
		}
	}
	health := func(text string, args ...string) error {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := Root("test", nil)
		cmd.SetArgs(append([]string{"health", "--config", file}, args...))
		return cmd.Execute()
	}
	const nobody, noYAML = "listen: 127.0.0.1:1\n", "limits: {\n"
	check := func(name, says string, err error) {
		t.Helper()
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	check("a mistake elsewhere", "", health("listen: "+address+"\nno_such_key: 1\nlimits: {queue_timeout: soon}\n"))
	check("the address is a mistake", "not known", health("listen: nowhere\n"))
	check("no YAML", "not valid YAML", health("listen: "+address+"\n"+noYAML))
	check("no YAML, and the address given", "not known", health(noYAML, "--listen", address)) // with TLS or not?
	check("a typo of the address", "lisen", health(nobody+"lisen: "+address+"\n"))

	check("no node has said where it is", "refused", health(nobody, "--data-dir", dir))
	announce(answer.URL)
	check("another address for the next start", "", health(nobody+"data_dir: "+dir+"\n"))
	check("no YAML, and the folder given", "", health(noYAML, "--data-dir", dir))
	check("an address was asked for", "refused", health("data_dir: "+dir+"\n", "--listen", "127.0.0.1:1"))
	announce(encrypted.URL)
	check("TLS is gone at the next start", "", health("listen: "+encrypted.Listener.Addr().String()+"\ndata_dir: "+dir+"\n"))
	t.Chdir(filepath.Dir(dir))
	if err := os.Rename(dir, "data"); err != nil {
		t.Fatal(err)
	}
	check("nobody named the folder, which may be another node's", "refused", health(nobody))
	t.Setenv("CORENODE_DATA_DIR", "data")
	check("a variable names it", "", health(nobody))
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
