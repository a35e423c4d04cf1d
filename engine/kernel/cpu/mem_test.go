//go:build unix

package cpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"corenode/engine/kernel"
)

// refuse has the system refuse memory that no file stands behind, such as which says, until the test ends.
func refuse(t *testing.T, which func(n int) bool) {
	mapMemory = func(fd int, at int64, n, prot, flags int) ([]byte, error) {
		if fd < 0 && which(n) {
			return nil, unix.ENOMEM
		}
		return unix.Mmap(fd, at, n, prot, flags)
	}
	t.Cleanup(func() { mapMemory = unix.Mmap })
}

func all(int) bool { return true }

// TestLoadSaysThatMemoryIsRefused: for panels, and for what reads them. What was refused can be loaded later.
func TestLoadSaysThatMemoryIsRefused(t *testing.T) {
	src := randomSource(newRand(1), kernel.Q8_0, 1, 40, 256)
	src.Name = "w"
	read := src
	read.Read = func(part []byte, _ *[]byte) []byte { return part }
	for _, c := range []struct {
		what  string
		src   kernel.Source
		which func(n int) bool
	}{
		{"panels", src, all},
		{"reading", read, func(n int) bool { return n == readers*readSpace }},
	} {
		b := open(t, Options{Threads: 1})
		refuse(t, c.which)
		_, err := b.Load(c.src)
		if !errors.Is(err, ErrMemory) || !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), " bytes") {
			t.Errorf("%s: %v", c.what, err)
		}
		mapMemory = unix.Mmap
		if w, err := b.Load(c.src); err != nil || w.(*weight).data == nil {
			t.Errorf("%s: %v after memory came back", c.what, err)
		}
		b.Wait()
	}
}

// TestWeightsStayInTheFileWhereMemoryIsRefused: huge pages are only faster, and mapped files do not count as memory. They are
// asked for once, for all of the file, so that weights do not take what others need.
func TestWeightsStayInTheFileWhereMemoryIsRefused(t *testing.T) {
	sources, dir := cacheSources(), t.TempDir()
	want := inMemory(t, sources)
	for _, found := range []bool{false, true} {
		b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
		need := arenaBlock
		if !found { // as for a large model, without its disk
			need = 4 * arenaBlock
			if b.disk.taken = int64(need); b.disk.file.Truncate(b.disk.taken) != nil {
				t.Fatal("a file cannot have a hole")
			}
		}
		var asked []int
		refuse(t, func(n int) bool { asked = append(asked, n); return n >= need })
		got, kept := loadAll(t, b, sources)
		mapMemory = unix.Mmap
		if sameBytes(t, got, want); kept != found || hugePages() && !slices.Equal(asked, []int{need}) {
			t.Errorf("found %v, want %v; it asks for %v, want %d", kept, found, asked, need)
		}
		seal(t, b)
	}
}

// TestCacheIsWholeOrRefused: what NewCache gives has its address space, and needs no more of the system.
func TestCacheIsWholeOrRefused(t *testing.T) {
	b := open(t, Options{Threads: 1})
	c := kernel.CacheConfig{Layers: 28, KVHeads: 8, HeadDim: 128, PageTokens: 64, Pages: 100, LinearLayers: 7, StateSlots: 2, ConvDim: 1024,
		ConvKernel: 4, VHeads: 8, StateDim: 208}
	cache, err := b.NewCache(c)
	if err != nil {
		t.Fatal(err)
	}
	if cache.BytesUsed() != 0 {
		t.Errorf("%d bytes are used before anything is written", cache.BytesUsed())
	}
	refuse(t, all)
	for page := range int32(c.Pages) {
		cache.(kernel.Memory).PageMemory(page)
	}
	cache.ResetState(0)
	cache.CopyState(1, 0)
	for name, part := range map[string]kernel.CacheConfig{"pages": {Layers: 1, KVHeads: 8, HeadDim: 128, PageTokens: 64, Pages: 100},
		"states": {LinearLayers: 7, StateSlots: 1, ConvDim: 1024, ConvKernel: 4, VHeads: 8, StateDim: 208}} {
		if _, err := b.NewCache(part); !errors.Is(err, ErrMemory) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(b.caches) != 1 {
		t.Errorf("%d caches, want the one that was not refused", len(b.caches))
	}
}
