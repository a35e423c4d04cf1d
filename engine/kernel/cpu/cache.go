package cpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"corenode/engine/kernel"
)

// The cache on disk is one file per model: a header page, the packed weights
// one after the other, then an index that names them. The header is written
// last and holds checksums of itself and of the index, so a file that was not
// finished is not used. Weights that are added later follow the index, and a new index follows them.
//
//	header: magic, version, layoutVersion, index offset, index size, index CRC, header CRC
//	index:  count, then per weight: name size, name, type, layout, experts, rows, cols, offset, size
const (
	storeMagic   = "corenode-weights"
	storeVersion = 1
	// layoutVersion changes with every change of a packed layout.
	layoutVersion = 3
	headerSize    = 4096
	headerUsed    = 16 + 4 + 4 + 8 + 8 + 4 // before the header's own CRC
	storeAlign    = 4096
	indexMax      = 64 << 20 // bytes; a model has some thousand weights
	nameMax       = 4096     // bytes of a weight's name
	storeExt      = ".packed"
)

var errStore = errors.New("not a finished cache of packed weights")

// entry is one weight in the file.
type entry struct {
	name   string
	typ    kernel.Type
	layout layout
	shape  [3]int // experts, rows, cols
	off    int64
	size   int64
}

// entryOf describes w at an offset.
func entryOf(w *weight, off int64) entry {
	return entry{w.src.Name, w.src.Type, w.layout, [3]int{w.src.Experts, w.src.Rows, w.src.Cols}, off, int64(w.size())}
}

// PackedBytes is how much of the cache on disk a matrix takes, its place in the index included. In
// parts it takes a little more. Nothing of Data is read.
func PackedBytes(src kernel.Source) int64 {
	s, ok := sources[src.Type]
	if !ok {
		return 0
	}
	w := newWeight(src, s.layout)
	return int64(roundUp(w.size(), max(storeAlign, os.Getpagesize())) + len(encodeIndex([]entry{entryOf(w, 0)})))
}

// storeName is the file of a model. The key must be letters and digits, so
// that it cannot leave the folder.
func storeName(key string) (string, error) {
	ok := func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	if len(key) > 128 || strings.ContainsFunc(key, func(r rune) bool { return !ok(r) }) {
		return "", fmt.Errorf("cpu weight cache: key %q, want at most 128 letters and digits", key)
	}
	return fmt.Sprintf("%s-p%d%s", key, layoutVersion, storeExt), nil
}

// CleanCache removes the packed weights in a folder that are not those of one of the keys, or are of another
// layout. Files that are being made stay, and what is mapped lives on. Keys are asked for only where there are files.
func CleanCache(dir string, keys iter.Seq[string]) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool { return filepath.Ext(f.Name()) != storeExt })
	if len(files) == 0 {
		return err
	}
	wanted := map[string]bool{}
	for key := range keys {
		name, err := storeName(key)
		if err != nil {
			return err
		}
		wanted[name] = true
	}
	for _, f := range files {
		if !wanted[f.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	return err
}

// encodeHeader is the header of a file whose index lies at off.
func encodeHeader(index []byte, off int64) []byte {
	h := make([]byte, 0, headerSize)
	h = append(h, storeMagic...)
	h = binary.LittleEndian.AppendUint32(h, storeVersion)
	h = binary.LittleEndian.AppendUint32(h, layoutVersion)
	h = binary.LittleEndian.AppendUint64(h, uint64(off))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(index)))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(index))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(h))
	return h[:headerSize]
}

// decodeHeader returns where the index lies in a file of size bytes, and its CRC.
func decodeHeader(h []byte, size int64) (off, n int64, crc uint32, err error) {
	if len(h) < headerSize || string(h[:16]) != storeMagic ||
		binary.LittleEndian.Uint32(h[headerUsed:]) != crc32.ChecksumIEEE(h[:headerUsed]) {
		return 0, 0, 0, errStore
	}
	if binary.LittleEndian.Uint32(h[16:]) != storeVersion || binary.LittleEndian.Uint32(h[20:]) != layoutVersion {
		return 0, 0, 0, errStore
	}
	off, n = int64(binary.LittleEndian.Uint64(h[24:])), int64(binary.LittleEndian.Uint64(h[32:]))
	if n < 0 || n > indexMax || off < headerSize || off > size || off+n != size {
		return 0, 0, 0, errStore
	}
	return off, n, binary.LittleEndian.Uint32(h[40:]), nil
}

func encodeIndex(entries []entry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(entries)))
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.name)))
		b = append(b, e.name...)
		b = binary.LittleEndian.AppendUint32(b, uint32(e.typ))
		b = append(b, byte(e.layout))
		for _, n := range []int64{int64(e.shape[0]), int64(e.shape[1]), int64(e.shape[2]), e.off, e.size} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
	}
	return b
}

// decodeIndex reads the weights of a file whose data ends at end. Entries that
// lie outside of it are an error; what they mean is checked when they are used.
func decodeIndex(b []byte, end int64) (map[string]entry, error) {
	const fixed = 4 + 1 + 5*8
	if len(b) < 4 {
		return nil, errStore
	}
	count := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if uint64(count)*(4+fixed) > uint64(len(b)) {
		return nil, errStore
	}
	entries := make(map[string]entry, count)
	for range count {
		if len(b) < 4 {
			return nil, errStore
		}
		n := binary.LittleEndian.Uint32(b)
		b = b[4:]
		if n > nameMax || uint64(len(b)) < uint64(n)+fixed {
			return nil, errStore
		}
		e := entry{name: string(b[:n])}
		b = b[n:]
		e.typ, e.layout = kernel.Type(binary.LittleEndian.Uint32(b)), layout(b[4])
		at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[5+8*i:])) }
		e.shape = [3]int{int(at(0)), int(at(1)), int(at(2))}
		e.off, e.size = at(3), at(4)
		b = b[fixed:]
		if e.off < headerSize || e.off%storeAlign != 0 || e.size < 0 || e.off > end || e.size > end-e.off {
			return nil, errStore
		}
		entries[e.name] = e
	}
	return entries, nil
}
