package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSettingsSayTheirSource: each value with where it came from, and a reload moves those that
// it changed.
func TestSettingsSayTheirSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log: {level: warn}\nlimits:\n  keepalive: 20s\nmodels:\n  core-1.1:\n    kv: {memory_bytes: 1GiB}\n" +
		"admin: {operators: [\"ann:viewer:" + strings.Repeat("0a", 32) + "\", \"bob:owner:" + strings.Repeat("B1", 32) + "\"]}\ncache: {keep: 1MiB}\n")
	from := Sources{File: file, Environment: []string{"CORENODE_LEDGER_SPILL_BYTES=2MiB"},
		Flags: map[string]string{"listen": "127.0.0.1:9"}, Models: []string{"mine=model.gguf"}}
	c, origins, err := Load(from)
	if err != nil {
		t.Fatal(err)
	}
	byKey := func() map[string]Setting {
		all := map[string]Setting{}
		for _, s := range Settings(c, origins) {
			all[s.Key] = s
		}
		return all
	}
	all := byKey()
	for _, want := range []Setting{
		{"log.level", "warn", "info", file, 1, true},
		{"limits.keepalive", "20s", "10s", file, 3, false},
		{"models.core-1.1.kv.memory_bytes", "1GiB", "0", file, 6, false},
		{"models.core-1.1.prices.input", "0.24", "0.24", "", 0, true},
		{"models.core-1.1.sampling.top_k", "", "", "", 0, true},
		{"models.core-1.1.upstream.urls", "[]", "[]", "", 0, false},
		{"admin.operators", "[ann:viewer, bob:owner]", "[]", file, 7, true},
		{"ledger.spill_bytes", "2MiB", "64MiB", "CORENODE_LEDGER_SPILL_BYTES", 0, false},
		{"listen", "127.0.0.1:9", "127.0.0.1:8080", "command line", 0, false},
		{"models.mine.path", "model.gguf", "", "command line", 0, false},
		{"limits.body_timeout", time.Minute.String(), time.Minute.String(), "", 0, false},
	} {
		if got := all[want.Key]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	write("limits:\n  keepalive: 30s\n\nlog:\n  level: debug\ncache: {keep: 1MiB}\n")
	next, after, err := Load(from)
	if err != nil {
		t.Fatal(err)
	}
	now, _, waits := Reload(c, next)
	c, origins = now, origins.Follow(waits, after)
	if got := byKey()["log.level"]; got.Value != "debug" || got.Line != 5 {
		t.Errorf("after a reload %+v", got)
	}
	if got := byKey()["cache.keep"]; got.Value != "1MiB" || got.Line != 6 {
		t.Errorf("what stands on another line now: %+v", got)
	}
	if got := byKey()["limits.keepalive"]; got.Value != "20s" || got.Line != 3 {
		t.Errorf("what waits for a restart: %+v", got)
	}
}

// TestWhatOverridesTheFileIsTheSource: a flag for a model of the file is the source of its path alone, and
// a list from elsewhere has no entry on a line of the file.
func TestWhatOverridesTheFileIsTheSource(t *testing.T) {
	const file = "models:\n  q:\n    path: a.gguf\n    prices: {input: 1, cached_input: 1, output: 1}\n"
	from := Sources{File: "c.yaml", Models: []string{"q=b.gguf"}}
	c, origins, problems := build([]byte(file), from)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	sources := map[string]Setting{}
	for _, s := range Settings(c, origins) {
		sources[s.Key] = s
	}
	if s := sources["models.q.path"]; s.Value != "b.gguf" || s.Source != "command line" || s.Line != 0 {
		t.Errorf("the path is %+v", s)
	}
	if s := sources["models.q.prices.input"]; s.Source != "c.yaml" || s.Line != 4 {
		t.Errorf("the price is %+v", s)
	}
	const lists = "server: {cors_origins: [https://a.example]}\nmodules:\n  denied: [discount<1.2.0]\n"
	for _, test := range []struct {
		text, want string
		from       Sources
	}{
		{"models:\n  q: {path: a.gguf}\n", "c.yaml:2: models.q.prices.input is missing", from},
		{lists, `CORENODE_SERVER_CORS_ORIGINS: server.cors_origins.0 is "x"`,
			Sources{File: "c.yaml", Environment: []string{"CORENODE_SERVER_CORS_ORIGINS=x"}}},
		{lists, `command line: modules.denied.0 is "x"`, Sources{File: "c.yaml", Flags: map[string]string{"modules.denied": "x"}}},
	} {
		_, _, problems := build([]byte(test.text), test.from)
		if len(problems) == 0 || !strings.HasPrefix(problems[0].Error(), test.want) {
			t.Errorf("%v, want %s", problems, test.want)
		}
	}
}
