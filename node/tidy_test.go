package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The house rules that a program can check. TestTidy applies every rule to every
// source file of the repository; a rule (tidy_rules_test.go) takes what was read
// and returns what it found, and the words are in tidy_words_test.go.

// exception is a place where a rule does not hold, and why. One that no rule
// needs any more fails the test.
type exception struct{ rule, path, name, reason string }

var exceptions = []exception{
	{"vocabulary", "engine/template/template.go", "GenerationPrompt", "the name that chat templates give it"},
}

// rules is all of them. Each has a planted violation in TestTidyFindsWhatIsPlanted.
var rules = []rule{
	{"function size", longFunctions},
	{"file size", longFiles},
	{"line width", wideLines},
	{"limit names", limitNames},
	{"vocabulary", foreignWords},
	{"spelling", britishSpellings},
	{"build tags", unknownTags},
	{"imports", mixedImports},
	{"folder syncs", portableSyncs},
	{"doc comments", undocumented},
	{"request's way", requestsWay},
	{"links", deadLinks},
	{"named files", lostFiles},
	{"overview", longOverview},
	{"third-party modules", unexplainedModules},
}

// rule is one house rule: its name in exceptions, and what breaks it in a tree.
type rule struct {
	name string
	find func(*tree) []finding
}

// finding is one violation. Name is what an exception calls it: the function,
// the identifier, or nothing where the file itself is meant.
type finding struct {
	path string
	line int
	name string
	text string
}

// tree is what the rules see: the sources that were parsed and the texts beside
// them, both by their path from the root of the repository.
type tree struct {
	fset    *token.FileSet
	sources []*source
	texts   map[string]string
}

// source is one Go file.
type source struct {
	path      string
	text      string
	file      *ast.File
	test      bool // compiled into tests only
	generated bool // carries "Code generated ... DO NOT EDIT."
}

// folders holds all Go files of ours; what lies in testdata is not ours to shape.
var folders = []string{"actors", "bench", "engine", "extensions", "node", "wasm"}

func TestTidy(t *testing.T) {
	tr := readTree(t, "..")
	if len(tr.sources) < 100 {
		t.Fatalf("%d source files found: the rules were not tested", len(tr.sources))
	}
	needed := map[exception]bool{}
	for _, r := range rules {
		for _, f := range r.find(tr) {
			if e, ok := excepted(r.name, f); ok {
				needed[e] = true
				continue
			}
			t.Errorf("%s:%d: %s: %s", f.path, f.line, r.name, f.text)
		}
	}
	for _, e := range exceptions {
		if !needed[e] {
			t.Errorf("%s %s %s: this exception is not needed any more", e.rule, e.path, e.name)
		}
		if e.reason == "" {
			t.Errorf("%s %s %s: this exception has no reason", e.rule, e.path, e.name)
		}
	}
}

func excepted(rule string, f finding) (exception, bool) {
	i := slices.IndexFunc(exceptions, func(e exception) bool { return e.rule == rule && e.path == f.path && e.name == f.name })
	if i < 0 {
		return exception{}, false
	}
	return exceptions[i], true
}

// TestTidyFindsWhatIsPlanted breaks each rule once, in a tree that keeps them all.
func TestTidyFindsWhatIsPlanted(t *testing.T) {
	for _, r := range rules {
		if found := r.find(plantedTree(t, nil)); len(found) > 0 {
			t.Fatalf("%s: found in a tree that keeps all rules: %v", r.name, found)
		}
	}
	planted := map[string]bool{}
	for i, p := range plants {
		t.Run(fmt.Sprintf("%d %s", i, p.rule), func(t *testing.T) {
			planted[p.rule] = true
			at := slices.IndexFunc(rules, func(r rule) bool { return r.name == p.rule })
			if at < 0 {
				t.Fatalf("there is no rule %q", p.rule)
			}
			found := rules[at].find(plantedTree(t, p.files))
			if len(found) != 1 || !strings.Contains(found[0].text, p.want) {
				t.Fatalf("found %v, want one finding that says %q", found, p.want)
			}
		})
	}
	for _, r := range rules {
		if !planted[r.name] {
			t.Errorf("%s: nothing is planted against this rule", r.name)
		}
	}
}

// plantedTree is a tree that keeps all rules, with the files of a plant in it.
func plantedTree(t *testing.T, files map[string]string) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet(), texts: map[string]string{}}
	all := maps.Clone(tidyFiles)
	maps.Copy(all, files)
	for path, text := range all {
		if !strings.HasSuffix(path, ".go") {
			tr.texts[path] = text
		} else if err := tr.parse(path, text); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

// readTree parses the sources below root and reads the texts that rules look at.
func readTree(t *testing.T, root string) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet(), texts: map[string]string{}}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"testdata", "runs", "node_modules"}, d.Name()):
				return filepath.SkipDir
			case !d.IsDir():
				tr.read(t, root, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"README.md", "Makefile", "go.mod"} {
		tr.read(t, root, filepath.Join(root, name))
	}
	return tr
}

// read adds one file, if a rule looks at files of its kind.
func (tr *tree) read(t *testing.T, root, path string) {
	t.Helper()
	extension := filepath.Ext(path)
	if !slices.Contains([]string{".go", ".md", ".mod", ".png", ""}, extension) {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if extension == ".png" { // it is there, for links
		data = nil
	}
	relative, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.ToSlash(relative)
	if extension != ".go" {
		tr.texts[name] = string(data)
		return
	}
	if err := tr.parse(name, string(data)); err != nil {
		t.Fatal(err)
	}
}

// parse adds a Go file from its text.
func (tr *tree) parse(path, text string) error {
	file, err := parser.ParseFile(tr.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", path, err)
	}
	tr.sources = append(tr.sources, &source{path: path, text: text, file: file,
		test: strings.HasSuffix(path, "_test.go"), generated: ast.IsGenerated(file)})
	return nil
}

// has says whether path is a file or folder of the tree.
func (tr *tree) has(path string) bool {
	under := func(name string) bool { return name == path || strings.HasPrefix(name, path+"/") }
	for name := range tr.texts {
		if under(name) {
			return true
		}
	}
	return slices.ContainsFunc(tr.sources, func(s *source) bool { return under(s.path) })
}

// line returns the number of the line that pos is on.
func (tr *tree) line(pos token.Pos) int { return tr.fset.Position(pos).Line }
