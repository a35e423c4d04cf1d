// Package embedded holds the model files that are part of the binary, so that
// a node without any configuration answers on any machine. Its folder train
// has everything that made them.
//
// A file ID.gguf may lie in the folder whole, or cut into ID.gguf.1-of-N to
// ID.gguf.N-of-N: repositories and transports like small files. An id without a
// file is served by the other's.
package embedded

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// ContextLength is what the models accept: their architecture has no limit, and
// the contract says this many tokens.
const ContextLength = 262144

// ThinkingMax is how many tokens the models may think, about twice the longest thought that they learned: longer ones
// go round in circles.
const ThinkingMax = 512

//go:embed *.gguf*
var files embed.FS

// stems says, for each model id, which files may serve it, the best first.
var stems = map[string][]string{
	"core-1.1":      {"core-1.1", "core-1.1-mini"},
	"core-1.1-mini": {"core-1.1-mini", "core-1.1"},
}

// loaded remembers the joined file of each stem: several engines and tests share
// one copy. Guarded by loadedMu; the bytes never change.
var (
	loadedMu sync.Mutex
	loaded   = map[string][]byte{}
)

// Model returns the model file embedded for an id, or nil for an id that has
// none. The caller must not change it. It panics when parts of a file are
// missing: the binary was built from half a model.
func Model(id string) []byte {
	loadedMu.Lock()
	defer loadedMu.Unlock()
	for _, stem := range stems[id] {
		if loaded[stem] == nil {
			data, err := join(files, stem)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				panic(fmt.Sprintf("embedded model %s: %v", stem, err))
			}
			loaded[stem] = data
		}
		return loaded[stem]
	}
	return nil
}

// join reads the file of a stem, whole or from its parts. fs.ErrNotExist means
// that there is neither; any other error, that what is there is not one file.
func join(folder fs.FS, stem string) ([]byte, error) {
	name := stem + ".gguf"
	parts, err := fs.Glob(folder, name+".*-of-*")
	if err != nil {
		return nil, err
	}
	whole, err := fs.ReadFile(folder, name)
	switch {
	case err == nil && len(parts) > 0:
		return nil, fmt.Errorf("there are %s and %d parts of it", name, len(parts))
	case len(parts) == 0:
		return whole, err
	}
	var out bytes.Buffer
	for i := range parts {
		part, err := fs.ReadFile(folder, fmt.Sprintf("%s.%d-of-%d", name, i+1, len(parts)))
		if err != nil { // not wrapped: a missing part is not a missing model
			return nil, fmt.Errorf("of %q, part %d of %d cannot be read: %v", parts, i+1, len(parts), err)
		}
		out.Write(part)
	}
	return out.Bytes(), nil
}
