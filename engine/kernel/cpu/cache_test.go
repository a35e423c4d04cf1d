//go:build unix

package cpu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"corenode/engine/kernel"
)

// cacheSources are a few weights with fixed names.
func cacheSources() []kernel.Source {
	r := newRand(20)
	var all []kernel.Source
	for i, typ := range allTypes {
		src := randomSource(r, typ, 1+i%2, 40, 256)
		src.Name = string(rune('a' + i))
		all = append(all, src)
	}
	return all
}

// loadAll loads the sources and returns their packed bytes, and whether all
// came from a finished file.
func loadAll(t *testing.T, b *Backend, all []kernel.Source) (packed [][]byte, found bool) {
	t.Helper()
	found = b.disk.data != nil
	for _, src := range all {
		packed = append(packed, bytes.Clone(load(t, b, src).(*weight).data))
	}
	return packed, found && !b.disk.stale && len(b.disk.lacks) == 0
}

func sameBytes(t *testing.T, got, want [][]byte) {
	t.Helper()
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("weight %d differs", i)
		}
	}
}

func inMemory(t *testing.T, all []kernel.Source) (want [][]byte) {
	b := open(t, Options{Threads: 1})
	for _, src := range all {
		want = append(want, bytes.Clone(load(t, b, src).(*weight).data))
	}
	return want
}

func storeFile(t *testing.T, key string) string {
	t.Helper()
	name, err := storeName(key)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func seal(t *testing.T, b *Backend) {
	t.Helper()
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
}

func TestCacheIsUsedAgain(t *testing.T) {
	all, dir := cacheSources(), filepath.Join(t.TempDir(), "new")
	want := inMemory(t, all)
	for round := range 3 {
		b := open(t, Options{Threads: 2, CacheDir: dir, CacheKey: "k1"})
		got, found := loadAll(t, b, all)
		if found != (round > 0) {
			t.Fatalf("round %d: found %v", round, found)
		}
		sameBytes(t, got, want)
		seal(t, b)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files in the folder (%v), want 1", len(files), err)
	}
}

func TestCacheWithoutSealLeavesNothing(t *testing.T) {
	all, dir := cacheSources(), t.TempDir()
	b, err := New(Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	loadAll(t, b, all)
	b.Close()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Fatalf("%d files in the folder (%v), want none", len(files), err)
	}
}

// TestCacheDamaged damages a finished file in many ways: each must lead to a
// correct load and a good file after the next seal, or the one after.
func TestCacheDamaged(t *testing.T) {
	all, dir := cacheSources(), t.TempDir()
	want := inMemory(t, all)
	path := filepath.Join(dir, storeFile(t, "k"))
	make := func() []byte {
		os.Remove(path)
		b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
		loadAll(t, b, all)
		seal(t, b)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good := make()
	damage := map[string]func([]byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"short header": func(b []byte) []byte { return b[:100] },
		"short":        func(b []byte) []byte { return b[:len(b)-1] },
		"long":         func(b []byte) []byte { return append(b, 0) },
		"magic":        func(b []byte) []byte { b[0]++; return b },
		"version":      func(b []byte) []byte { b[16]++; return b },
		"layout":       func(b []byte) []byte { b[20]++; return b },
		"index offset": func(b []byte) []byte { b[25]++; return b },
		"index":        func(b []byte) []byte { b[len(b)-3]++; return b },
		"other model":  func(b []byte) []byte { return resealed(b, "other") },
	}
	for name, f := range damage {
		if err := os.WriteFile(path, f(bytes.Clone(good)), 0o600); err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
			got, found := loadAll(t, b, all)
			sameBytes(t, got, want)
			if found && round == 0 {
				t.Errorf("%s: the damaged file was used", name)
			}
			if !found && round == 2 {
				t.Errorf("%s: no good file after two starts", name)
			}
			seal(t, b)
		}
	}
}

// TestCacheServesTwoSets: of two models of one file the second may use weights that the first does not. What
// is packed for either is there at the next start of both, in one file.
func TestCacheServesTwoSets(t *testing.T) {
	all, dir := cacheSources(), t.TempDir()
	want, fewer := inMemory(t, all), len(all)-3
	for round := range 3 {
		for i, n := range []int{fewer, len(all)} {
			b := open(t, Options{Threads: 2, CacheDir: dir, CacheKey: "k"})
			got, found := loadAll(t, b, all[:n])
			if sameBytes(t, got, want[:n]); found != (round > 0) {
				t.Errorf("round %d: all weights of model %d were found: %v", round, i, found)
			}
			seal(t, b)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Fatalf("round %d: %d files in the folder (%v), want 1", round, len(files), err)
		}
	}
}

// TestCacheThatCannotGrow: what lacks is packed again at the next start, and what is there stays as it is.
func TestCacheThatCannotGrow(t *testing.T) {
	all, dir := cacheSources(), t.TempDir()
	want, fewer := inMemory(t, all), len(all)-3
	path := filepath.Join(dir, storeFile(t, "k"))
	begin := func(n int) *Backend {
		b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
		got, _ := loadAll(t, b, all[:n])
		sameBytes(t, got, want[:n])
		return b
	}
	seal(t, begin(fewer))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	small := func() func() {
		diskFree = func(*os.File) (int64, bool) { return spareBytes, true }
		return func() { diskFree = freeBytes }
	}
	locked := func() func() {
		f, err := os.Open(path)
		if err != nil || !tryLock(f) {
			t.Fatal("no lock", err)
		}
		return func() { f.Close() }
	}
	for name, c := range map[string]struct {
		prevent func() (permit func())
		says    string
	}{"small disk": {small, "bytes of disk"}, "another one makes it grow": {prevent: locked}} {
		permit := c.prevent()
		err := begin(len(all)).Seal()
		permit()
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: the file is not what it was (%v)", name, err)
		}
	}
	late := begin(len(all)) // of a file that is not the one of that name any more
	os.Remove(path)
	seal(t, begin(fewer))
	seal(t, late)
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("a file that another one put there is not what it was (%v)", err)
	}
	seal(t, begin(len(all)))
	if _, found := loadAll(t, open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"}), all); !found {
		t.Error("a file that grew is not used")
	}
}

// resealed is a well-formed file whose only weight has another name.
func resealed(file []byte, name string) []byte {
	off, _, _, err := decodeHeader(file, int64(len(file)))
	if err != nil {
		panic(err)
	}
	index := encodeIndex([]entry{{name: name, shape: [3]int{1, 1, 1}, off: headerSize, size: 64}})
	file = append(file[:off:off], index...)
	copy(file, encodeHeader(index, off))
	return file
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	all, dir := cacheSources(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, Options{Threads: 1, CacheDir: filepath.Join(dir, "below"), CacheKey: "k"})
	got, _ := loadAll(t, b, all)
	sameBytes(t, got, inMemory(t, all))
	if err := b.Seal(); err == nil {
		t.Fatal("Seal says nothing about a folder that cannot be made")
	}
}

// TestCleanCache: a file of no model, or of another layout, goes, whatever characters the path of the folder
// has; what nobody made here stays.
func TestCleanCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data[1]")
	if err := CleanCache(dir, slices.Values([]string{"a"})); err != nil {
		t.Errorf("without a folder: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stay := []string{storeFile(t, "a"), storeFile(t, "b"), storeFile(t, "former") + ".1.tmp", "notes"}
	for _, name := range append([]string{storeFile(t, "former"), "a-p0.packed"}, stay...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := CleanCache(dir, slices.Values([]string{"a", "b"}))
	files, _ := os.ReadDir(dir)
	var left []string
	for _, f := range files {
		left = append(left, f.Name())
	}
	if slices.Sort(stay); err != nil || !slices.Equal(left, stay) {
		t.Errorf("%v is left, want %v (%v)", left, stay, err)
	}
}

// TestCacheOnASmallDisk: where the weights do not fit with room to spare, not a byte is written: the next
// start would do the same again.
func TestCacheOnASmallDisk(t *testing.T) {
	all := cacheSources()
	want := inMemory(t, all)
	var need int64
	for _, src := range all {
		need += PackedBytes(src)
	}
	first := max(storeAlign, int64(os.Getpagesize()))
	defer func() { diskFree = freeBytes }()
	for _, c := range []struct {
		free int64
		kept bool
	}{{first + need + spareBytes, true}, {first + need + spareBytes - 1, false}, {0, false}} {
		dir := t.TempDir()
		diskFree = func(f *os.File) (int64, bool) {
			info, err := f.Stat()
			if err != nil || info.Size() > 0 {
				t.Errorf("%d bytes were taken before anybody looked for room, or more than was said (%v)", info.Size(), err)
			}
			return c.free, true
		}
		b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k", CacheBytes: need})
		got, _ := loadAll(t, b, all)
		sameBytes(t, got, want)
		err := b.Seal()
		files, _ := os.ReadDir(dir)
		if c.kept != (err == nil) || c.kept != (len(files) == 1) {
			t.Errorf("%d bytes free: %d files, %v", c.free, len(files), err)
		}
		if says := fmt.Sprintf("%d bytes of disk", first+need); !c.kept && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}

// TestCacheThatIsGivenUpHasNoDisk: nothing is mapped of a new file but what is used there.
func TestCacheThatIsGivenUpHasNoDisk(t *testing.T) {
	if !hugePages() {
		t.Skip("weights are used where they lie in the file")
	}
	all := cacheSources()
	b := open(t, Options{Threads: 1, CacheDir: t.TempDir(), CacheKey: "k"})
	got, _ := loadAll(t, b, all)
	if len(b.disk.made) != len(all) || len(b.disk.pieces) > 0 {
		t.Errorf("%d of %d weights are in the file, %d still mapped", len(b.disk.made), len(all), len(b.disk.pieces))
	}
	b.disk.abandon()
	sameBytes(t, got, inMemory(t, all))
}

// TestCacheThatCannotBeMapped: weights that are there and cannot be used are not kept, or they would be
// packed from what nobody reads ahead.
func TestCacheThatCannotBeMapped(t *testing.T) {
	all, dir := cacheSources(), t.TempDir()
	b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
	loadAll(t, b, all)
	seal(t, b)
	o := Options{Threads: 1, CacheDir: dir, CacheKey: "k"}
	if !open(t, o).Kept() {
		t.Fatal("no finished file: the test sees nothing")
	}
	mapMemory = func(int, int64, int, int, int) ([]byte, error) { return nil, unix.ENOMEM }
	defer func() { mapMemory = unix.Mmap }()
	if open(t, o).Kept() {
		t.Error("a file that cannot be mapped counts as kept")
	}
}

// TestCacheRace lets two backends make the same file at once.
func TestCacheRace(t *testing.T) {
	all, dir := cacheSources(), t.TempDir()
	want := inMemory(t, all)
	one := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
	two := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
	a, _ := loadAll(t, one, all)
	c, _ := loadAll(t, two, all)
	sameBytes(t, a, want)
	sameBytes(t, c, want)
	seal(t, one)
	seal(t, two)
	got, found := loadAll(t, open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"}), all)
	if sameBytes(t, got, want); !found {
		t.Fatal("no file after two seals")
	}
}

// TestCacheRemovesLeftovers is in a folder whose name would be a pattern of others.
func TestCacheRemovesLeftovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "models [a]")
	maker := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
	file := func(number string) string { return filepath.Join(dir, storeFile(t, "k")+"."+number+".tmp") }
	for _, c := range []struct {
		path string
		age  time.Duration
		gone bool
	}{
		{file("1"), 2 * leftoverAge, true},
		{file("2"), 5 * time.Second, true}, // of a process that died, and was started again
		{filepath.Join(dir, storeFile(t, "other")+".1.tmp"), 2 * lockAge, true},
		{file("3"), -time.Minute, false}, // young, also on a machine that stands still
		{maker.disk.file.Name(), time.Hour, false},
	} {
		if c.path != maker.disk.file.Name() {
			if err := os.WriteFile(c.path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		past := time.Now().Add(-c.age)
		if err := os.Chtimes(c.path, past, past); err != nil {
			t.Fatal(err)
		}
		open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
		if _, err := os.Stat(c.path); os.IsNotExist(err) != c.gone {
			t.Errorf("%s of %s ago: gone %v, want %v", c.path, c.age, !c.gone, c.gone)
		}
	}
}

// TestCacheRemovesLeftoversBesideAFinishedFile: the start that succeeds at last comes
// too soon after those that died to tell, and all later ones find its file.
func TestCacheRemovesLeftoversBesideAFinishedFile(t *testing.T) {
	all, dir := cacheSources(), t.TempDir()
	b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
	loadAll(t, b, all)
	seal(t, b)
	left := filepath.Join(dir, storeFile(t, "k")+".1.tmp")
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-2 * lockAge)
	if err := os.Chtimes(left, past, past); err != nil {
		t.Fatal(err)
	}
	if _, found := loadAll(t, open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"}), all); !found {
		t.Fatal("the finished file was not used: the test sees nothing")
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("a leftover stays for as long as there is a finished file: %v", err)
	}
}

// TestCachePages: weights begin at pages of the system, or they could not be mapped
// while the file is made.
func TestCachePages(t *testing.T) {
	const page = 64 << 10 // as some arm64 systems have
	all, dir := cacheSources(), t.TempDir()
	b := open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
	b.disk.close()
	var err error
	if b.disk, err = openStoreFor(dir, "k", 0, page); err != nil {
		t.Fatal(err)
	}
	loadAll(t, b, all)
	for _, e := range b.disk.made {
		if e.off%page != 0 {
			t.Errorf("weight %s begins at byte %d, not at a page", e.name, e.off)
		}
	}
	if len(b.disk.made) != len(all) {
		t.Fatalf("%d weights are cached, want %d", len(b.disk.made), len(all))
	}
	seal(t, b)
	got, found := loadAll(t, open(t, Options{Threads: 1, CacheDir: dir, CacheKey: "k"}), all)
	if sameBytes(t, got, inMemory(t, all)); !found {
		t.Error("the file was not used")
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(encodeIndex(nil), int64(headerSize))
	f.Add(encodeIndex([]entry{{"a", kernel.Q8_0, code8, [3]int{1, 2, 3}, headerSize, 100}}), int64(9000))
	f.Fuzz(func(t *testing.T, b []byte, end int64) {
		entries, err := decodeIndex(b, end)
		if err != nil {
			return
		}
		for name, e := range entries {
			if e.name != name || e.off < headerSize || e.size < 0 || e.off+e.size > end {
				t.Fatalf("entry %+v in a file of %d bytes", e, end)
			}
		}
	})
}
