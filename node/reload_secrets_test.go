package main

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"corenode/bench/fake"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/admin"
	"corenode/node/config"
)

// keyed is a server that notes with which keys it is asked. It is safe for concurrent use.
type keyed struct {
	*fake.Server
	mu    sync.Mutex
	shown map[string]bool
}

func startKeyed(t *testing.T) *keyed {
	s := fake.New(t, flavor.VLLM, func(int, []byte) fake.Script { return fake.Script{Text: []string{"yes"}} })
	k := &keyed{Server: s, shown: map[string]bool{}}
	inner := k.Config.Handler
	k.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		k.mu.Lock()
		k.shown[strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer ")] = true
		k.mu.Unlock()
		inner.ServeHTTP(w, q)
	})
	return k
}

// keys are those that it was asked with, sorted.
func (k *keyed) keys() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.shown))
}

// rewrite gives a file other content.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReloadOfAKeyFile: what is in the file of a key is in force with the servers that it is for. Neither is where the other
// cannot be.
func TestReloadOfAKeyFile(t *testing.T) {
	a, b := startKeyed(t), startKeyed(t)
	dir := t.TempDir()
	file, keyFile := filepath.Join(dir, "corenode.yaml"), filepath.Join(dir, "key")
	from := config.Sources{File: file}
	write := func(s *keyed, more string) {
		rewrite(t, file, fmt.Sprintf("models: {%s: {engine: upstream, context_length: 4096, prices: {input: 1, cached_input: 1, output: 1}, "+
			"upstream: {flavour: vllm, urls: [%q], key_file: %q%s}}}", fastModel, s.URL, keyFile, more))
	}
	rewrite(t, keyFile, "sk-a")
	write(a, "")
	started, _, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	n, base, key := startNode(t, func(cfg *config.Config) { cfg.Models = started.Models })
	awaitReplicas(t, n)
	r := newReloader(from, started, new(slog.LevelVar), slog.New(slog.DiscardHandler))
	r.node = n
	const urls, path = "models." + fastModel + ".upstream.urls", "models." + fastModel + ".upstream.key_file"
	reload := func(changed, waiting []string, problems int) {
		t.Helper()
		done := r.reload()
		if !slices.Equal(done.Changed, changed) || !slices.Equal(done.Waiting, waiting) || len(done.Problems) != problems {
			t.Errorf("%+v, want %v and %v waiting, with %d problems", done, changed, waiting, problems)
		}
	}
	ask := func() {
		postJSON(t, base, key, "/v1/messages", object{"model": fastModel, "max_tokens": 4, "messages": []object{{"role": "user", "content": "Hi"}}})
	}

	rewrite(t, keyFile, "sk-b")
	write(b, ", model: other")
	reload([]string{}, []string{urls, "models." + fastModel + ".upstream.model", path}, 0)
	write(b, "")
	reload([]string{urls, path}, []string{}, 0)
	waitFor(t, "the new server", func() bool {
		all := n.catalog.upstreams[fastModel].Replicas()
		return len(all) == 1 && all[0].Ready
	})
	ask()
	if fromA, fromB := a.keys(), b.keys(); !slices.Equal(fromA, []string{"sk-a"}) || !slices.Equal(fromB, []string{"sk-b"}) {
		t.Errorf("the server before was sent %v, the new one %v", fromA, fromB)
	}
	rewrite(t, keyFile, "sk-rotated")
	reload([]string{path}, []string{}, 0)
	ask()
	if !slices.Contains(b.keys(), "sk-rotated") {
		t.Errorf("after its key was rotated the server was sent %v", b.keys())
	}
	reload([]string{}, []string{}, 0)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	write(a, "")
	reload([]string{}, []string{urls}, 1)
	if all := n.catalog.upstreams[fastModel].Replicas(); len(all) != 1 || all[0].ID != b.URL {
		t.Errorf("without the file of the key: %+v", all)
	}
}

// TestReloadOfATokenFile: a token that was replaced in its file opens nothing after a reload, and commands have the new one.
func TestReloadOfATokenFile(t *testing.T) {
	dir := t.TempDir()
	file, tokenFile := filepath.Join(dir, "corenode.yaml"), filepath.Join(dir, "token")
	first, second := strings.Repeat("a", 30), strings.Repeat("b", 30)
	rewrite(t, tokenFile, first)
	rewrite(t, file, fmt.Sprintf("admin: {token_file: %q}", tokenFile))
	from := config.Sources{File: file}
	started, _, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	n, _, _ := startNode(t, func(cfg *config.Config) {
		instantModels(cfg)
		cfg.Admin.TokenFile = tokenFile
	})
	r := newReloader(from, started, new(slog.LevelVar), slog.New(slog.DiscardHandler))
	r.node = n
	opens := func(token string) bool {
		_, is := n.server.Operator(token)
		return is
	}
	rewrite(t, tokenFile, second)
	if done := r.reload(); !slices.Equal(done.Changed, []string{"admin.token_file"}) || opens(first) || !opens(second) {
		t.Errorf("%+v; the token before opens %v, the new one %v", done, opens(first), opens(second))
	}
	if c, err := admin.Dial(n.cfg.DataDir); err != nil {
		t.Error(err)
	} else if _, err := c.Status(); err != nil {
		t.Error(err)
	}
	rewrite(t, tokenFile, "short")
	if done := r.reload(); len(done.Changed) > 0 || len(done.Problems) != 1 || !opens(second) {
		t.Errorf("a file without a token: %+v", done)
	}
}
