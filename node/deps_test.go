package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulePath = "corenode/"

// mayImport is the rule: the folders each folder may import from. Do not widen
// it to make a build pass; move the code, or change ARCHITECTURE.md first.
// wasm/abi is a leaf: everyone may.
var mayImport = map[string][]string{
	"node":       {"actors", "engine", "extensions", "wasm/builtin"},
	"actors":     {"engine", "extensions"},
	"extensions": {"wasm/builtin"},
	"engine":     {},
	"wasm":       {},
	"bench":      {"engine"},
}

// livesIn names the only folders that may import a third-party package.
var livesIn = map[string][]string{
	"github.com/valyala/fasthttp":            {"node/server", "bench"},
	"github.com/tetratelabs/wazero":          {"extensions/guest"},
	"github.com/asynkron/protoactor-go":      {"actors"},
	"github.com/ncruces/go-sqlite3":          {"node/store/sqlite"},
	"github.com/jackc/pgx":                   {"node/store/postgres", "node/store/postgrestest"},
	"github.com/VictoriaMetrics/metrics":     {"node"},
	"github.com/ebitengine/purego":           {"engine/kernel/cuda/libcuda"},
	"github.com/spf13/cobra":                 {"node/cli", "bench"},
	"github.com/goccy/go-yaml":               {"node/config"},
	"github.com/anthropics/anthropic-sdk-go": {}, // tests only
	"github.com/openai/openai-go":            {}, // tests only
	"github.com/santhosh-tekuri/jsonschema":  {"bench/skills", "engine/grammar/grammartest", "engine/upstream", "extensions/guest"},
}

// inside holds the finer rules within engine and extensions: arithmetic and
// bookkeeping know nobody, and what runs a guest knows no host.
var inside = map[string][]string{
	"engine/kernel":         {},
	"engine/kv":             {},
	"engine/keep":           {"engine/kv"},
	"engine/trail":          {"engine/kv"},
	"engine/cost":           {},
	"engine/priority":       {},
	"engine/sched":          {"engine/cost", "engine/kv", "engine/priority"},
	"engine/sample":         {},
	"engine/draft":          {},
	"engine/output":         {},
	"engine/grammar":        {"engine/output"},
	"engine/template":       {},
	"engine/messages":       {},
	"engine/modelfile":      {"engine/kernel"},
	"engine/tokenizer":      {"engine/modelfile"},
	"engine/kernel/cpu":     {"engine/kernel"},
	"engine/modeltest":      {"engine/kernel", "engine/tokenizer"},
	"engine/upstream/route": {},
	"engine/upstream/wire":  {"engine/messages", "wasm/sdk/scan"},
	"engine/upstream": {"engine", "engine/messages", "engine/output", "engine/priority", "engine/upstream/route",
		"engine/upstream/wire"},
	"engine/model":     {"engine/kernel", "engine/modelfile", "engine/kv"},
	"wasm/abi":         {},
	"actors/limit":     {"actors/account"},
	"node/store":       {"actors/account", "actors/limit"},
	"node/store/rules": {"actors/account", "node/store"},

	"engine/kernel/cuda/cudatest/tensor": {},
	"node/store/postgrestest":            {"bench/proc"}, // it is for tests, and starts a server as they do

	"extensions":         {"extensions/capture", "extensions/compare", "extensions/guest", "extensions/probe", "wasm/builtin"},
	"extensions/guest":   {"extensions/meter", "extensions/probe", "extensions/vector"},
	"extensions/meter":   {},
	"extensions/vector":  {},
	"extensions/probe":   {"extensions/vector"},
	"extensions/compare": {"extensions/probe"},
	"extensions/capture": {"extensions/vector"},
}

func TestImportDirections(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "corenode/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for dec.More() {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		seen++
		check(t, strings.TrimPrefix(p.ImportPath, modulePath), p.Imports)
	}
	if seen < 10 {
		t.Fatalf("go list found %d packages: the rule was not tested", seen)
	}
}

func check(t *testing.T, from string, imports []string) {
	top, _, _ := strings.Cut(from, "/")
	for _, path := range imports {
		if to, ours := strings.CutPrefix(path, modulePath); ours {
			if !allowed(from, top, to) {
				t.Errorf("%s imports %s", from, to)
			}
			if forTests(to) && !forTests(from) {
				t.Errorf("%s imports %s, which is for tests: it would ship in the product", from, to)
			}
			continue
		}
		for lib, homes := range livesIn {
			if under(path, lib) && !slices.ContainsFunc(homes, func(h string) bool { return under(from, h) }) {
				t.Errorf("%s imports %s, which lives in %v only", from, path, homes)
			}
		}
	}
}

// forTests says whether a package is for tests: its name, or that of a folder it lies in, ends in "test".
func forTests(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.HasSuffix(name, "test") })
}

// TestPackagesForTests: what lies in a folder for tests is for tests, too.
func TestPackagesForTests(t *testing.T) {
	for path, want := range map[string]bool{"engine/modeltest": true, "engine/kernel/cuda/cudatest/tensor": true, "engine/model": false,
		"engine/kernel": false} {
		if forTests(path) != want {
			t.Errorf("%s is for tests: %v, want %v", path, !want, want)
		}
	}
}

func allowed(from, top, to string) bool {
	if to == "wasm/abi" || strings.HasPrefix(to, "wasm/abi/") {
		return from != "wasm/abi"
	}
	toTop, _, _ := strings.Cut(to, "/")
	if rule, ok := inside[from]; ok {
		return slices.Contains(rule, to)
	}
	return toTop == top || slices.ContainsFunc(mayImport[top], func(a string) bool { return under(to, a) })
}

func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// TestDefaultNodeHasNoKernelsOfGPUs: it could not use them.
func TestDefaultNodeHasNoKernelsOfGPUs(t *testing.T) {
	for tag, want := range map[string]bool{"": false, "cuda": true} {
		out, err := exec.Command("go", "list", "-tags", tag, "-deps", "corenode/node").Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for _, name := range []string{"eager", "wide", "fused"} {
			if got := slices.Contains(strings.Fields(string(out)), "corenode/engine/kernel/cuda/"+name); got != want {
				t.Errorf("tag %q: the node imports engine/kernel/cuda/%s: %v, want %v", tag, name, got, want)
			}
		}
	}
}

// TestDefaultProgramLinksNoDriver keeps the program static: what opens dynamic libraries comes
// with the tag cuda only.
func TestDefaultProgramLinksNoDriver(t *testing.T) {
	const library = "github.com/ebitengine/purego"
	out, err := exec.Command("go", "list", "-deps", "corenode/node", "corenode/bench").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if strings.Contains(string(out), library) {
		t.Errorf("the default programs import %s", library)
	}
	out, err = exec.Command("go", "list", "-tags", "cuda", "-deps", "corenode/node").Output()
	if err != nil || !strings.Contains(string(out), library) {
		t.Errorf("with the tag cuda the driver is not called through %s: %v", library, err)
	}
}
