package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/config"
	"corenode/node/store/sqlite"
	"corenode/node/store/sqlite/sqlitetest"
)

// oldFolder makes a data folder of the schema before the last one, and last is that.
func oldFolder(t *testing.T) (dir string, last int) {
	t.Helper()
	dir = t.TempDir()
	scripts := os.DirFS("store/sqlite/migrations")
	all, err := filepath.Glob("store/sqlite/migrations/*.sql")
	if err == nil {
		last = len(all)
		err = sqlitetest.Old(dir, scripts, last-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, last
}

func schemaOf(t *testing.T, dir string) int {
	t.Helper()
	version, err := sqlitetest.Schema(filepath.Join(dir, sqlite.DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// TestFailedStartLeavesTheSchema: after a start that the configuration made fail the program that served before still can.
func TestFailedStartLeavesTheSchema(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	noModel := filepath.Join(t.TempDir(), "no.gguf")
	if err := os.WriteFile(noModel, []byte("this is no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := func(change func(*config.Model)) func(*config.Config) {
		return func(cfg *config.Config) {
			m := cfg.Models["core-1.1"]
			m.Engine = config.EngineCPU
			change(&m)
			cfg.Models["core-1.1"] = m
		}
	}
	for name, change := range map[string]func(*config.Config){
		"a port that is taken":    func(cfg *config.Config) { cfg.Listen = taken.Addr().String() },
		"an admin port":           func(cfg *config.Config) { cfg.Admin.Listen = taken.Addr().String() },
		"no such model":           model(func(m *config.Model) { m.Path = noModel + ".none" }),
		"a file that is no model": model(func(m *config.Model) { m.Path = noModel }),
		"too little memory":       model(func(m *config.Model) { m.KV.MemoryBytes = 1 }),
		"a context over memory":   model(func(m *config.Model) { m.ContextLength, m.KV.MemoryBytes = 1<<20, 1<<20 }),
		"no certificate":          func(cfg *config.Config) { cfg.Server.TLSCertificate, cfg.Server.TLSKey = noModel, noModel },
		"no token":                func(cfg *config.Config) { cfg.Admin.TokenFile = filepath.Dir(noModel) },
		"a spill journal that is none": func(cfg *config.Config) {
			if err := os.WriteFile(filepath.Join(cfg.DataDir, "spill.journal"), []byte("this is none, and as long as the head of one"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"no key of a server": func(cfg *config.Config) {
			cfg.Models["far"] = config.Model{Engine: config.EngineUpstream, ContextLength: 1000,
				Upstream: config.Upstream{URLs: []string{"http://127.0.0.1:1"}, KeyFile: noModel + ".none"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, last := oldFolder(t)
			cfg, log := config.Default(), new(bytes.Buffer)
			cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", dir, moduleCache
			instantModels(cfg)
			change(cfg)
			if n, err := start(cfg, log); err == nil {
				n.stop()
				t.Fatal("it starts")
			}
			if got := schemaOf(t, dir); got != last-1 || strings.Contains(log.String(), "migrated") {
				t.Errorf("the schema is %d, want %d; the log:\n%s", got, last-1, log)
			}
		})
	}
}

// TestStartTellsOfAMigration: the way back is closed then. A new database is none that was migrated.
func TestStartTellsOfAMigration(t *testing.T) {
	old, last := oldFolder(t)
	for dir, tells := range map[string]bool{old: true, t.TempDir(): false} {
		for range 2 {
			cfg, log := config.Default(), new(bytes.Buffer)
			cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", dir, moduleCache
			instantModels(cfg)
			n, err := start(cfg, log)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.stop(); err != nil {
				t.Error(err)
			}
			said := strings.Contains(log.String(), "the database was migrated") && strings.Contains(log.String(), `"WARN"`)
			if said != tells || schemaOf(t, dir) != last {
				t.Errorf("it tells %v, want %v; the schema is %d; the log:\n%s", said, tells, schemaOf(t, dir), log)
			}
			tells = false
		}
	}
}
