// Package wasm is the kit that authors of modules get: the sources of the
// software development kit, and examples that a new project begins as. It is
// text only; the shipped modules are in package builtin.
package wasm

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed AUTHORING.md abi/*.go sdk/*.go sdk/scan/*.go sdk/field/*.go sdk/piece/*.go
//go:embed sdk/c/corenode.h sdk/rust/Cargo.toml sdk/rust/src/*.rs sdk/assemblyscript/*.ts
//go:embed examples/*/*.go examples/*/*.c examples/*/*.ts examples/*/Cargo.toml examples/*/src/*.rs
//go:embed examples/*/manifest.json examples/*/vectors/*.json examples/vectors/*/*.json
//go:embed examples/*.mk examples/.cargo/config.toml
var files embed.FS

// kitPlace is where the examples have the kits that are not in Go.
var kitPlace = regexp.MustCompile(`\.\./\.\./sdk/(c|rust|assemblyscript)\b`)

// languages are those with a kit.
var languages = []string{"go", "c", "rust", "assemblyscript"}

// Kinds returns what a project can be of: the folders of the examples, without their languages.
func Kinds() (all []string) {
	entries, err := files.ReadDir("examples")
	if err != nil {
		panic(err) // it is compiled in
	}
	for _, entry := range entries {
		at := max(0, strings.LastIndexByte(entry.Name(), '-'))
		if kind := entry.Name()[:at]; !slices.Contains(all, kind) && len(languagesOf(kind)) > 0 {
			all = append(all, kind)
		}
	}
	return all
}

// languagesOf are those in which there is an example of a kind.
func languagesOf(kind string) (all []string) {
	for _, lang := range languages {
		if _, err := fs.Stat(files, path.Join("examples", kind+"-"+lang, "manifest.json")); err == nil {
			all = append(all, lang)
		}
	}
	return all
}

// sdkFolder is where a project keeps its copy of the kit.
const sdkFolder = "corenode"

// Project returns the files of a new module's project by slashed path: source,
// manifest, golden vectors, Makefile, README.md, and a copy of the kit, so that
// it builds on its own and offline. kind is one of Kinds, lang is go, c, rust or assemblyscript,
// and name becomes the module's.
func Project(kind, lang, name string) (map[string][]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if !slices.Contains(Kinds(), kind) {
		return nil, fmt.Errorf("there is no example of kind %q: want %s", kind, strings.Join(Kinds(), ", "))
	}
	if in := languagesOf(kind); !slices.Contains(in, lang) {
		return nil, fmt.Errorf("there is no example of kind %q in language %q: want %s", kind, lang, strings.Join(in, ", "))
	}
	project := map[string][]byte{"README.md": fmt.Appendf(nil, readme, name, kind)}
	addExample(project, kind, lang)
	if err := rename(project, name); err != nil {
		return nil, err
	}
	project[".gitignore"] = []byte("*.wasm\n*.sig\n*.pem\ntarget\nCargo.lock\n")
	project[path.Join(sdkFolder, "AUTHORING.md")] = read("AUTHORING.md")
	if lang != "go" {
		addFolder(project, path.Join("sdk", lang), sdkFolder)
		return project, nil
	}
	project["go.mod"] = fmt.Appendf(nil, goMod, name)
	project[path.Join(sdkFolder, "go.mod")] = []byte(sdkMod)
	for _, folder := range []string{"abi", "sdk", "sdk/scan", "sdk/field", "sdk/piece"} {
		addGo(project, folder, path.Join(sdkFolder, "wasm", folder))
	}
	return project, nil
}

const (
	// The path has an element before the name, which may be one of Go's own packages.
	goMod  = "module guest/%s\n\ngo 1.26\n\nrequire corenode v0.0.0\n\nreplace corenode => ./corenode\n"
	sdkMod = "module corenode\n\ngo 1.26\n"
)

const readme = `# %[1]s

A module of kind %[2]s for a corenode node. It is a working example until you change it.

    make            # compile, pack manifest and vectors into %[1]s.wasm, check it as a node would
    make golden     # write what the module gives into vectors/; read the diff

If corenode is not in your PATH: make CORENODE=/where/it/is/corenode. Then sign it,
and on the machine of the node, where --data-dir is its data folder:

    corenode module keygen signing.pem      # once; keep it out of the repository and off the node
    corenode module sign --key signing.pem %[1]s.wasm
    corenode module load %[1]s.wasm --data-dir DATA
    corenode module activate %[1]s@1.0.0 --data-dir DATA

- manifest.json says what the module is; raise its version with each change.
- vectors/ holds calls and what must come back: the contract of the module.
- corenode/ is a copy of the kit. corenode/AUTHORING.md explains all of this.
`

// checkName takes the names that a manifest takes.
func checkName(name string) error {
	plain := name != "" && len(name) <= 64
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		plain = plain && (letter || i > 0 && (c == '.' || c == '_' || c == '-'))
	}
	if !plain {
		return fmt.Errorf("name is %q, want 1 to 64 of a-z 0-9 . _ - that begin with a letter or digit", name)
	}
	if name == sdkFolder {
		return errors.New("name is corenode, which is the kit's")
	}
	return nil
}

// addExample adds the files of an example, those too that it shares with others: the Makefile
// of its language, and its kind's golden vectors where it has none of its own.
func addExample(project map[string][]byte, kind, lang string) {
	example := path.Join("examples", kind+"-"+lang)
	if _, err := fs.Stat(files, path.Join(example, "vectors")); err != nil {
		addFolder(project, path.Join("examples/vectors", kind), "vectors")
	}
	addFolder(project, example, "")
	project["Makefile"] = read("examples/" + lang + ".mk")
	if lang == "rust" {
		project[".cargo/config.toml"] = read("examples/.cargo/config.toml")
	}
}

// addFolder adds all of a folder's files.
func addFolder(project map[string][]byte, folder, to string) {
	_ = fs.WalkDir(files, folder, func(name string, entry fs.DirEntry, _ error) error {
		if !entry.IsDir() {
			project[path.Join(to, strings.TrimPrefix(name, folder+"/"))] = read(name)
		}
		return nil
	})
}

// addGo adds the Go files of a folder, but for its tests.
func addGo(project map[string][]byte, folder, to string) {
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic(err) // it is compiled in
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			project[path.Join(to, name)] = read(path.Join(folder, name))
		}
	}
}

func read(name string) []byte {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is compiled in
	}
	return text
}

// rename gives the module its name, and what refers to the kit its place.
func rename(project map[string][]byte, name string) error {
	var manifest struct{ Name string }
	if err := json.Unmarshal(project["manifest.json"], &manifest); err != nil {
		return err
	}
	quoted := func(name string) []byte { return fmt.Appendf(nil, `"name": %q`, name) }
	project["manifest.json"] = bytes.Replace(project["manifest.json"], quoted(manifest.Name), quoted(name), 1)
	makefile := strings.Replace(string(project["Makefile"]), ":= $(NAME)\n", ":= "+name+"\n", 1)
	project["Makefile"] = []byte(strings.ReplaceAll(makefile, "$(VECTORS)", "vectors"))
	for file, text := range project {
		project[file] = kitPlace.ReplaceAll(text, []byte("./"+sdkFolder))
	}
	return nil
}
