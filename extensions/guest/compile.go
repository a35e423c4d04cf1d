package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// code is a compiled module in a runtime of its own, so that closing it gives
// everything back and nothing is shared with other modules.
type code struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil without a folder that keeps it
	compiled wazero.CompiledModule
}

func (c *code) close() {
	ctx := context.Background()
	_ = c.runtime.Close(ctx) // instances of it first
	if c.compiled != nil {
		_ = c.compiled.Close(ctx)
	}
	if c.cache != nil {
		_ = c.cache.Close(ctx)
	}
}

// compile makes code of a metered module. What the compiler gave before is
// taken from the folder dir of compiled modules, if it is intact there, which the
// caller may have seen just now; "" is none. unkept says why the code is not in
// the folder, without which it is as good; err is what the engine has against the module.
// There is no interruption by context: the engine pays for that on every loop
// round, and the meter does it better.
func compile(metered []byte, dir string, intact bool) (c *code, unkept, err error) {
	ctx := experimental.WithCompilationWorkers(context.Background(), 1)
	config := wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	c = &code{}
	var found []string // that the sum vouches for
	if dir != "" {
		dir = filepath.Join(dir, cacheKey(metered))
		if c.cache, unkept = openCache(dir, intact); unkept == nil {
			config = config.WithCompilationCache(c.cache)
			found = filesOf(dir)
		}
	}
	c.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if c.compiled, err = c.runtime.CompileModule(ctx, metered); err != nil && c.cache != nil {
		unkept = err // the engine has in memory what it cannot write, and gives it when it is asked again
		c.compiled, err = c.runtime.CompileModule(ctx, metered)
	}
	if err != nil {
		c.close()
		return nil, nil, err
	}
	if c.cache != nil {
		if unkept == nil && !slices.Equal(found, filesOf(dir)) { // nothing was there, or nothing of this engine
			unkept = writeSum(dir)
		}
		trimCache(filepath.Dir(dir))
	}
	return c, unkept, nil
}

// openCache makes a cache of a folder. Files that are not what was written go, and the module is compiled again: the engine checks
// only part of what it reads back, and runs it.
func openCache(dir string, intact bool) (wazero.CompilationCache, error) {
	if !intact && !isIntact(dir) {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(dir)
}

// cacheKey names the folder of one module's compiled code. The metered bytes
// tell apart whatever the meter does differently; below the folder the engine
// adds its version, and the features of the processor to the file's name.
func cacheKey(metered []byte) string {
	sum := sha256.Sum256(metered)
	return hex.EncodeToString(sum[:])
}

// sumFile holds the hash of all other files of a cache folder.
const sumFile = "SUM"

// isIntact says whether a cache folder's files are what was written.
func isIntact(dir string) bool {
	want, err := os.ReadFile(filepath.Join(dir, sumFile))
	sum, sumErr := sumOf(dir)
	return err == nil && sumErr == nil && string(want) == sum
}

// writeSum makes the folder's files count. Without the whole sum they are dropped
// next time, so an error, or a crash meanwhile, costs one compilation.
func writeSum(dir string) error {
	sum, err := sumOf(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sumFile), []byte(sum), 0o600)
}

// filesOf names all files below dir, with their sizes and times.
func filesOf(dir string) (all []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			all = append(all, fmt.Sprint(path, info.Size(), info.ModTime().UnixNano()))
		}
		return nil
	})
	return all
}

// sumOf hashes the names and bytes of all files below dir but the sum.
func sumOf(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sumFile {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		one := sha256.Sum256(b)
		h.Write([]byte(name + "\x00"))
		h.Write(one[:])
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// cacheFoldersMax bounds the compile cache: modules beyond it are compiled
// again when they are next loaded.
const cacheFoldersMax = 64

// trimCache removes the folders that were written longest ago.
func trimCache(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= cacheFoldersMax {
		return
	}
	age := func(e os.DirEntry) int64 {
		if info, err := e.Info(); err == nil {
			return info.ModTime().UnixNano()
		}
		return 0
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return int(min(1, max(-1, age(a)-age(b)))) })
	for _, e := range entries[:len(entries)-cacheFoldersMax] {
		if len(e.Name()) == 2*sha256.Size && e.IsDir() {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
