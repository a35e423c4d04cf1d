// Package devloop turns a folder with a module's source into a module file, and says
// when there is something to build again. It knows no node.
//
// A folder is looked at, not subscribed to: some dozens of files take well under a
// millisecond, on every system and on every kind of disk.
package devloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"corenode/extensions/check"
	"corenode/extensions/vector"
)

// Project is a folder with a module's source, manifest.json and vectors.
type Project struct {
	Dir string
	// Build is the shell line that compiles it, run in Dir; see buildLine.
	Build string
	// Also are files outside of Dir that count as part of it.
	Also []string
}

// Open finds out how a folder is built, unless build says it.
func Open(dir, build string) (*Project, error) {
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err != nil {
		return nil, fmt.Errorf("%s is no module's project: %w", dir, err)
	}
	dir, err := filepath.EvalSymlinks(dir) // a walk does not follow the link that it begins with
	if err != nil {
		return nil, err
	}
	p := &Project{Dir: dir, Build: build}
	if build == "" {
		if p.Build, err = buildLine(dir); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// buildLine is how a folder says that it is compiled: by the target compile of its
// Makefile, as all kits have one, or by what its toolchain expects.
func buildLine(dir string) (string, error) {
	if text, err := os.ReadFile(filepath.Join(dir, "Makefile")); err == nil && bytes.Contains(text, []byte("\ncompile:")) {
		return "make -s compile", nil
	}
	for _, known := range []struct{ file, line string }{
		{"Cargo.toml", "cargo build --quiet --release --target wasm32-unknown-unknown"},
		{"go.mod", "GOOS=wasip1 GOARCH=wasm CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w -buildid=' " +
			"-buildmode=c-shared -o module.wasm ."},
	} {
		if _, err := os.Stat(filepath.Join(dir, known.file)); err == nil {
			return known.line, nil
		}
	}
	return "", fmt.Errorf("%s has no Makefile with a target compile, no Cargo.toml and no go.mod: say how it is built with --build", dir)
}

// BuildError is a build that failed, with what its tools said.
type BuildError struct {
	Line   string
	Output string
	Err    error
}

// Error says which line failed.
func (e *BuildError) Error() string { return fmt.Sprintf("%s: %v", e.Line, e.Err) }

// outputMax bounds what is kept of a build's output, its beginning.
const outputMax = 32 << 10

// Make builds the project and gives its file with manifest and vectors in it. The
// error is a *BuildError, or says what of the rest is wrong.
func (p *Project) Make(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", p.Build)
	cmd.Dir = p.Dir
	cmd.WaitDelay = time.Second // for what it started, which has its output open
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, &BuildError{p.Build, string(out[:min(len(out), outputMax)]), err}
	}
	return p.Pack()
}

// Pack gives the file that was built last, with the manifest and the vectors of now. One that
// lies beside the manifest is left so, as other commands want it; those of tools are theirs.
func (p *Project) Pack() ([]byte, error) {
	file, err := p.newest()
	if err != nil {
		return nil, err
	}
	module, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(p.Dir, "manifest.json"))
	if err != nil {
		return nil, err
	}
	var vectors []byte
	if folder := p.Vectors(); folder != "" {
		if vectors, err = vector.Pack(folder); err != nil {
			return nil, err
		}
	}
	packed, err := check.Pack(module, manifest, vectors)
	if err == nil && filepath.Dir(file) == filepath.Clean(p.Dir) && !bytes.Equal(packed, module) {
		err = os.WriteFile(file, packed, 0o644)
	}
	return packed, err
}

// Vectors is the folder of the golden vectors, "" without one.
func (p *Project) Vectors() string {
	folder := filepath.Join(p.Dir, "vectors")
	if files, _ := fs.Glob(os.DirFS(folder), "*.json"); len(files) == 0 {
		return ""
	}
	return folder
}

// newest is the module file that was written last.
func (p *Project) newest() (found string, err error) {
	var last time.Time
	for _, pattern := range []string{"*.wasm", "build/*.wasm", "target/wasm32-*/release/*.wasm"} {
		names, _ := fs.Glob(os.DirFS(filepath.Clean(p.Dir)), pattern) // the patterns are well formed
		for _, name := range names {
			file := filepath.Join(p.Dir, filepath.FromSlash(name))
			if info, err := os.Stat(file); err == nil && info.ModTime().After(last) {
				found, last = file, info.ModTime()
			}
		}
	}
	if found == "" {
		return "", fmt.Errorf("%s left no .wasm file in %s, build/ or target/wasm32-*/release/", p.Build, p.Dir)
	}
	return found, nil
}

// State is what a folder's source looked like.
type State map[string]stamp

type stamp struct {
	size     int64
	modified int64 // Unix nanoseconds
}

// filesMax bounds how many files a project may have.
const filesMax = 10_000

// Look reads the state of the source: not what a build writes, nor what editors keep beside it.
func (p *Project) Look() (State, error) {
	s := State{}
	err := filepath.WalkDir(p.Dir, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went while we looked
			return nil
		case err != nil:
			return err
		case entry.IsDir() && path != p.Dir && (strings.HasPrefix(name, ".") || slices.Contains(builtFolders, name)):
			return filepath.SkipDir
		case entry.IsDir() || !isSource(name):
			return nil
		case len(s) >= filesMax:
			return fmt.Errorf("%s has more than %d files", p.Dir, filesMax)
		}
		s.Note(path)
		return nil
	})
	for _, path := range p.Also {
		s.Note(path)
	}
	return s, err
}

// Note takes a file in as it is now.
func (s State) Note(path string) {
	if info, err := os.Stat(path); err == nil {
		s[path] = stamp{info.Size(), info.ModTime().UnixNano()}
	}
}

// builtFolders are those that tools write into.
var builtFolders = []string{"build", "target", "node_modules"}

func isSource(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || name == "4913" { // what vim tries a folder with
		return false
	}
	switch filepath.Ext(name) {
	case ".wasm", ".sig", ".o", ".swp", ".tmp":
		return false
	}
	return true
}

// Saved is when the last of the files was saved that s has and before had otherwise;
// zero for one that went.
func (s State) Saved(before State) time.Time {
	last := int64(0)
	for path, now := range s {
		if before[path] != now {
			last = max(last, now.modified)
		}
	}
	if last == 0 {
		return time.Time{}
	}
	return time.Unix(0, last)
}

const (
	lookEvery = 20 * time.Millisecond
	// settled is how long the source must stay as it is: editors and formatters write in steps.
	settled = 40 * time.Millisecond
)

// Wait returns the state of the source when it is not what it was before any more, and has
// settled. The error is ctx's, or of the folder.
func (p *Project) Wait(ctx context.Context, before State) (State, error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	seen, since := before, time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		now, err := p.Look()
		if err != nil {
			return nil, err
		}
		if !maps.Equal(now, seen) {
			seen, since = now, time.Now()
		} else if !maps.Equal(seen, before) && time.Since(since) >= settled {
			return seen, nil
		}
	}
}
