package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/bench/fake"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/admin"
	"corenode/node/cli"
	"corenode/node/config"
)

// TestUpstreamOperators lists, drains, adds and removes replicas by the command line, and
// reads a configuration again that names others.
func TestUpstreamOperators(t *testing.T) {
	var servers []*fake.Server
	for range 3 {
		servers = append(servers, fake.New(t, flavor.VLLM, func(int, []byte) fake.Script { return fake.Script{Text: []string{"yes"}} }))
	}
	n, base, key := startNode(t, func(cfg *config.Config) {
		ownModels(cfg)
		withFake(cfg, fastModel, flavor.VLLM, servers[0], servers[1])
	})
	awaitReplicas(t, n)
	command := func(args ...string) (string, error) {
		var out strings.Builder
		cmd := cli.Root(version, serve)
		cmd.SetArgs(append(append([]string{"upstream"}, args...), "--data-dir", n.cfg.DataDir))
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		return out.String(), err
	}
	asked := func(i int) int { return len(servers[i].Seen()) }
	ask := func(times int) {
		for i := range times {
			cachedOf(t, base, key, fastModel, fmt.Sprint("prompt ", i))
		}
	}
	if out, err := command("list", "--json"); err != nil || strings.Count(out, `"ready": true`) != 2 || !strings.Contains(out, `"version": "1.2.3"`) {
		t.Errorf("list: %v, %s", err, out)
	}
	if out, err := command("drain", servers[0].URL); err != nil || !strings.Contains(out, "up, draining") {
		t.Errorf("drain: %v, %s", err, out)
	}
	if ask(5); asked(0) != 0 || asked(1) != 5 {
		t.Errorf("%d and %d requests, the first replica drains", asked(0), asked(1))
	}
	if _, err := command("add", fastModel, servers[2].URL); err != nil {
		t.Error(err)
	}
	awaitReplicas(t, n)
	if _, err := command("remove", fastModel, servers[1].URL); err != nil {
		t.Error(err)
	}
	if ask(5); asked(1) != 5 || asked(2) != 5 {
		t.Errorf("%d and %d requests, want all of the second five on the one that was added", asked(1), asked(2))
	}
	if _, err := command("undrain", servers[0].URL); err != nil {
		t.Error(err)
	}
	if ask(40); asked(0) == 0 {
		t.Error("nothing comes to the replica that does not drain any more")
	}
	for _, wrong := range [][]string{{"drain", servers[1].URL}, {"add", "ftp://x"}, {"drain", slowModel, servers[0].URL}, {"add"}} {
		if out, err := command(wrong...); err == nil {
			t.Errorf("%v: %s", wrong, out)
		}
	}
	reloadReplicas(t, n, servers[1].URL, servers[2].URL)
}

// reloadReplicas reads a configuration with other urls and peers: new ones join, lost ones go,
// and one that was added by hand stays.
func reloadReplicas(t *testing.T, n *node, next, added string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "corenode.yaml")
	text := func(url, peer string) string {
		return fmt.Sprintf("server: {peer_keys: [%s]}\nmodels:\n  %s: {engine: upstream, context_length: 4096, "+
			"prices: {input: 1, cached_input: 1, output: 1}, upstream: {flavour: vllm, urls: [%q]}}\n", peer, fastModel, url)
	}
	from := config.Sources{File: file}
	read := func(url, peer string) *config.Config {
		if err := os.WriteFile(file, []byte(text(url, peer)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := config.Load(from)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	r := newReloader(from, read(n.catalog.upstreams[fastModel].Replicas()[0].ID, "key_a"), new(slog.LevelVar), slog.New(slog.DiscardHandler))
	r.node = n
	read(next, "key_b")
	r.reload()
	if now := r.running; !slices.Equal(now.Server.PeerKeys, []string{"key_b"}) ||
		!slices.Equal(now.Models[fastModel].Upstream.URLs, []string{next}) {
		t.Errorf("in force: %+v", now.Models[fastModel].Upstream)
	}
	client, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{added, next}
	slices.Sort(want)
	waitFor(t, "the lost one to go", func() bool {
		all, err := client.Upstreams()
		if err != nil {
			t.Fatal(err)
		}
		var urls []string
		for _, r := range all[0].Replicas {
			urls = append(urls, r.URL)
		}
		return slices.Equal(urls, want)
	})
}
