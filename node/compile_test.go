package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"corenode/extensions"
	"corenode/node/cli"
	"corenode/node/config"
)

// TestNodeCompilesInAnotherProcess: a node has the command of its own program
// compile a module; without it, it says so and compiles by itself.
func TestNodeCompilesInAnotherProcess(t *testing.T) {
	t.Setenv(childVariable, "1") // of the process that compiles
	for i, c := range []struct {
		command []string
		itself  bool
	}{{compileModules(), false}, {[]string{filepath.Join(t.TempDir(), "gone"), cli.CompileName}, true}} {
		var lines bytes.Buffer
		cfg := config.Default()
		cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir, cfg.Modules.AllowUnsigned = "127.0.0.1:0", t.TempDir(), moduleCache, true
		instantModels(cfg)
		writer := newLogWriter(&lines)
		log, _, err := newLogger(cfg, writer)
		if err != nil {
			t.Fatal(err)
		}
		n, err := open(cfg, log, c.command)
		if err != nil {
			t.Fatal(err)
		}
		n.begin()
		if _, err := n.modules.Load(t.Context(), slowModule(t, extensions.SlotBilling, int32(11+i)), nil, nil); err != nil {
			t.Error(err)
		}
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		writer.Close()
		if itself := strings.Contains(lines.String(), "the node compiles modules itself"); itself != c.itself {
			t.Errorf("%s: compiled by the node: %t\n%s", c.command, itself, &lines)
		}
	}
}
