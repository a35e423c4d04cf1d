//go:build unix

package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// store is the cache on disk of one model. It is either found (a finished file
// is mapped read-only), or it makes one: each weight gets a piece of a
// temporary file, is packed right into its mapping and used from there, and
// seal gives the file its header and its name. Processes that race each make
// their own; the last rename wins and all are the same.
//
// Two models of one file may use different weights of it, as one with its prediction layer and one without.
// What a finished file lacks is packed in memory, and seal adds it: one file serves both.
//
// Disk for all weights is taken before the first one: a file that is given up half way would
// hold, without a name, what the rest of the node needs, and so at each start.
//
// A store never makes loading fail: what cannot be cached is packed in memory,
// and seal says why.
type store struct {
	path    string
	data    []byte // mapped finished file
	entries map[string]entry
	mapped  fs.FileInfo // of the finished file
	lacks   []*weight   // that the finished file does not have: seal adds them
	stale   bool        // the finished file has another weight of a name: seal removes it
	err     error       // why nothing is cached

	file   *os.File // temporary, while making one; locked, so that others know that it is being made
	align  int64    // of weights: a multiple of storeAlign and of the system's pages, which pieces are mapped by
	end    int64
	taken  int64 // bytes of disk that the file has
	made   []entry
	pieces [][]byte // mapped parts of the temporary file that are in use
}

// openStore finds the finished file of a model or starts a new one, of about so many bytes.
func openStore(dir, key string, need int64) (*store, error) {
	return openStoreFor(dir, key, need, os.Getpagesize())
}

// openStoreFor is openStore on a system with pages of so many bytes, a power of two.
func openStoreFor(dir, key string, need int64, page int) (*store, error) {
	name, err := storeName(key)
	if err != nil {
		return nil, err
	}
	s := &store{path: filepath.Join(dir, name), align: max(storeAlign, int64(page))}
	s.end = s.align
	removeLeftovers(dir)
	if s.open() == nil {
		return s, nil
	}
	if s.err = os.MkdirAll(dir, 0o700); s.err != nil {
		return s, nil
	}
	if s.file, s.err = os.CreateTemp(dir, name+".*.tmp"); s.err != nil {
		return s, nil
	}
	tryLock(s.file) // where there are no locks, leftovers stay for longer
	if s.err = s.take(s.end + need); s.err != nil {
		s.abandon()
	}
	return s, nil
}

// spareBytes are left free on the disk, which is mostly that of the ledger too.
const spareBytes = 256 << 20

// diskFree is what the file's disk has left. Tests put another disk in its place.
var diskFree = freeBytes

// take has the file's blocks allocated up to end.
func (s *store) take(end int64) error {
	n := end - s.taken
	if n <= 0 {
		return nil
	}
	if free, known := diskFree(s.file); known && free-spareBytes < n {
		return fmt.Errorf("it takes %d bytes of disk, and %d more stay free: there are %d", n, spareBytes, free)
	}
	// Really allocated, not sparse: writing to a hole of a full disk is a bus error.
	if err := allocate(s.file, s.taken, n); err != nil {
		return fmt.Errorf("it takes %d bytes of disk: %w", n, err)
	}
	s.taken = end
	return nil
}

// writeZeros takes disk for [off, off+n) of f where there is no other way to.
func writeZeros(f *os.File, off, n int64) error {
	zero := make([]byte, min(n, 1<<20))
	for n > 0 {
		k := min(n, int64(len(zero)))
		if _, err := f.WriteAt(zero[:k], off); err != nil {
			return err
		}
		off, n = off+k, n-k
	}
	return nil
}

// size is what all weights take in the file, about.
func (s *store) size() int { return max(len(s.data), int(s.taken)) }

// kept says whether the finished file was found.
func (s *store) kept() bool { return s.entries != nil }

const (
	// leftoverAge is when a temporary file cannot belong to a live process any
	// more: making one takes minutes at most.
	leftoverAge = 24 * time.Hour
	// lockAge is when its maker has locked it, if it can: it does so at once. Of a node that is killed again and
	// again hardly more than one may stay.
	lockAge = 2 * time.Second
)

// removeLeftovers deletes temporary files, of any model, of processes that died
// while making one. They are as large as the model, and a node that dies for want of memory
// is started again and again. It is an aid: what goes wrong is left to the next time.
func removeLeftovers(dir string) {
	names, _ := fs.Glob(os.DirFS(dir), "*.packed.*.tmp")
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if age := time.Since(info.ModTime()); age > leftoverAge || age > lockAge && !beingMade(path) {
			os.Remove(path)
		}
	}
}

// beingMade says whether a live process holds the lock on a temporary file, or
// that it cannot be known.
func beingMade(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	return !tryLock(f)
}

// tryLock locks a file for as long as it is open. It fails where another has
// done so, in this process or another, or where files cannot be locked.
func tryLock(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }

// open maps the finished file and reads its index.
func (s *store) open() error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(f, header); err != nil {
		return err
	}
	off, n, crc, err := decodeHeader(header, info.Size())
	if err != nil {
		return err
	}
	index := make([]byte, n)
	if _, err := f.ReadAt(index, off); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(index) != crc {
		return errStore
	}
	entries, err := decodeIndex(index, off)
	if err != nil {
		return err
	}
	if s.data, err = mapMemory(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return err
	}
	s.entries, s.mapped = entries, info
	unix.Madvise(s.data, unix.MADV_WILLNEED) // a hint: read-ahead from a cold disk
	return nil
}

// find returns the packed form of w from a finished file, or nil.
func (s *store) find(w *weight) []byte {
	e, ok := s.entries[w.src.Name]
	switch {
	case s.data == nil:
		return nil
	case !ok:
		s.lacks = append(s.lacks, w)
		return nil
	case e != entryOf(w, e.off):
		s.stale = true
		return nil
	}
	return s.data[e.off : e.off+e.size : e.off+e.size]
}

// reserve returns zero memory in the temporary file for w, or nil when there
// is none: the disk is full, or the name is taken.
func (s *store) reserve(w *weight) []byte {
	if s.file == nil || !s.storable(w) {
		return nil
	}
	size := int64(w.size())
	if s.err = s.take(s.end + size); s.err != nil {
		s.abandon()
		return nil
	}
	b, err := mapMemory(int(s.file.Fd()), s.end, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if s.err = err; err != nil {
		s.abandon()
		return nil
	}
	s.made = append(s.made, entryOf(w, s.end))
	s.pieces = append(s.pieces, b)
	s.end = s.aligned(s.end + size)
	return b
}

// release gives back a weight that has moved to memory: of a finished file its pages, which come
// back when touched, of a new one the mapping too, or its disk would stay taken when it is given up.
func (s *store) release(b []byte) {
	at := slices.IndexFunc(s.pieces, func(piece []byte) bool { return &piece[0] == &b[0] })
	if at < 0 {
		unix.Madvise(b, unix.MADV_DONTNEED)
		return
	}
	unmapBytes(s.pieces[at])
	s.pieces = slices.Delete(s.pieces, at, at+1)
}

// seal finishes a new file: weights, index and header reach the disk before
// the name does.
func (s *store) seal() error {
	switch {
	case s.err != nil:
		return fmt.Errorf("cpu weight cache: %w", s.err)
	case s.stale: // mapped memory outlives the name
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cpu weight cache: %w", err)
		}
		return nil
	case len(s.lacks) > 0:
		if err := s.extend(); err != nil {
			return fmt.Errorf("cpu weight cache: %w", err)
		}
		return nil
	case s.file == nil:
		return nil
	}
	err := s.finish()
	if err == nil {
		err = os.Rename(s.file.Name(), s.path)
	}
	if err != nil {
		s.abandon()
		return fmt.Errorf("cpu weight cache: %w", err)
	}
	s.file.Close()
	s.file = nil
	return syncDir(filepath.Dir(s.path))
}

// extend adds what the finished file lacks, behind its index: where others have mapped the file nothing changes but
// the header, which nobody reads again. Until it has a new header it is not a finished file. What cannot be added is undone.
func (s *store) extend() (err error) {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, s.mapped) || !tryLock(f) {
		return nil // another one has made the file anew, or adds to it
	}
	// Only with the lock: it may have grown until then.
	if info, err = f.Stat(); err != nil || info.Size() != s.mapped.Size() {
		return err
	}
	s.file, s.taken = f, info.Size()
	defer func() {
		s.file = nil
		if err != nil {
			f.Truncate(info.Size())
		}
	}()
	s.end = s.aligned(s.taken)
	s.made = slices.SortedFunc(maps.Values(s.entries), func(a, b entry) int { return cmp.Compare(a.off, b.off) })
	if err := s.append(s.lacks); err != nil {
		return err
	}
	return s.finish()
}

// append writes packed weights behind what the file has.
func (s *store) append(weights []*weight) error {
	end := s.end
	for _, w := range weights {
		end = s.aligned(end + int64(w.size()))
	}
	if err := s.take(end); err != nil {
		return err
	}
	for _, w := range weights {
		if !s.storable(w) {
			continue
		}
		if _, err := s.file.WriteAt(w.data, s.end); err != nil {
			return err
		}
		s.made = append(s.made, entryOf(w, s.end))
		s.end = s.aligned(s.end + int64(w.size()))
	}
	return nil
}

// aligned is where the next weight may begin.
func (s *store) aligned(off int64) int64 { return (off + s.align - 1) / s.align * s.align }

// storable says whether a weight may have a place in the file: its name fits and is not taken.
func (s *store) storable(w *weight) bool {
	return len(w.src.Name) <= nameMax && !slices.ContainsFunc(s.made, func(e entry) bool { return e.name == w.src.Name })
}

// finish writes index and header and makes everything durable.
func (s *store) finish() error {
	index := encodeIndex(s.made)
	if _, err := s.file.WriteAt(index, s.end); err != nil {
		return err
	}
	if err := s.file.Truncate(s.end + int64(len(index))); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil { // mapped pages are the file's pages
		return err
	}
	if _, err := s.file.WriteAt(encodeHeader(index, s.end), 0); err != nil {
		return err
	}
	return s.file.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// abandon removes the temporary file. Weights that are used where they lie in it stay mapped, and
// theirs is the disk until the end.
func (s *store) abandon() {
	if s.file != nil {
		os.Remove(s.file.Name())
		s.file.Close()
		s.file = nil
	}
}

// close unmaps everything: no weight of this store may be used after it.
func (s *store) close() {
	s.abandon()
	for _, b := range s.pieces {
		unmapBytes(b)
	}
	if s.data != nil {
		unmapBytes(s.data)
	}
	*s = store{}
}
