// Package keep writes a prefix cache to a stream and reads it back: pages, snapshots, the
// tokens that they are found by and whose they are. It opens no file and waits for nothing
// but the stream.
//
// The stream: a fixed head (magic, Version, size and checksum of what follows), the
// Meta as JSON, then one record for each page: its head, tokens, the bytes of the page, those of
// its snapshot if it has one, and a checksum of all that. Pages follow each other by
// their worth, each after the one before it in its prefix. Numbers are little-endian.
//
// A stream is taken only by a cache of exactly the shape, the model and the level that it
// was written by, and only if its length is what the Meta says. A record that is damaged
// ends the reading; what was before it is whole. Whose prefix it is stands in every record.
package keep

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"corenode/engine/kv"
)

// Version is that of the format, and of what the bytes of a page and a snapshot mean: it
// changes when the kernels round differently or lay out pages differently.
const Version = 1

const (
	magic    = "corenode-prefix\n"
	headSize = len(magic) + 4 + 4 + 4 // version, size and checksum of the Meta
	metaMax  = 64 << 20
	// recordHead is namespace, parent, flags, hits and the time of the latest hit.
	recordHead   = 4 + 4 + 4 + 4 + 8
	flagSnapshot = 1
)

// ErrOther says that a stream is of another model, level or shape. What is wrong with
// others wraps ErrDamaged.
var (
	ErrOther   = errors.New("it is of another model, level or size of pages")
	ErrDamaged = errors.New("it is damaged")
)

// Shape is what must be equal for the bytes of a cache to mean the same.
type Shape struct {
	Model      string // digest of the model file
	Level      string // backend and kernel level: they round differently
	KV         string // type of K and V
	PageTokens int
	PageBytes  int64
	StateBytes int64 // of one snapshot, 0 without
}

// Meta is what a stream says of itself.
type Meta struct {
	Shape
	Namespaces []string
	Pages      int
	Snapshots  int
}

// RecordBytes is how long the record of one page is, without its snapshot.
func (s Shape) RecordBytes() int64 { return recordHead + 4*int64(s.PageTokens) + s.PageBytes + 4 }

// Memory is where the bytes of pages and snapshots lie.
type Memory interface {
	PageMemory(page int32) []byte
	StateMemory(slot int32) [][]byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Write writes entries, as kv.Pool.Keep lists them.
func Write(w io.Writer, shape Shape, entries []kv.Kept, memory Memory) error {
	meta, index := Meta{Shape: shape, Pages: len(entries)}, map[string]uint32{}
	for _, e := range entries {
		if _, ok := index[e.Namespace]; !ok {
			index[e.Namespace] = uint32(len(meta.Namespaces))
			meta.Namespaces = append(meta.Namespaces, e.Namespace)
		}
		if e.State != kv.NoState {
			meta.Snapshots++
		}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	head := append(make([]byte, 0, headSize+len(text)), magic...)
	head = binary.LittleEndian.AppendUint32(head, Version)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(text)))
	head = binary.LittleEndian.AppendUint32(head, checksum(text))
	if _, err := w.Write(append(head, text...)); err != nil {
		return err
	}
	var scratch []byte
	for _, e := range entries {
		scratch = appendRecord(scratch[:0], index[e.Namespace], e)
		if err := writeRecord(w, scratch, e, memory, shape); err != nil {
			return err
		}
	}
	return nil
}

// appendRecord appends a record's head and tokens.
func appendRecord(b []byte, namespace uint32, e kv.Kept) []byte {
	flags := uint32(0)
	if e.State != kv.NoState {
		flags = flagSnapshot
	}
	b = binary.LittleEndian.AppendUint32(b, namespace)
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(e.Parent)))
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint32(b, e.Hits)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Met))
	for _, t := range e.Tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return b
}

func writeRecord(w io.Writer, head []byte, e kv.Kept, memory Memory, shape Shape) error {
	pieces := [][]byte{head, memory.PageMemory(e.Page)}
	want := int64(len(head)) + shape.PageBytes
	if e.State != kv.NoState {
		pieces = append(pieces, memory.StateMemory(e.State)...)
		want += shape.StateBytes
	}
	sum := uint32(0)
	for _, piece := range pieces {
		sum = crc32.Update(sum, castagnoli, piece)
		want -= int64(len(piece))
	}
	if want != 0 {
		return fmt.Errorf("keep: a page and its snapshot are %d bytes longer than their shape says", -want)
	}
	for _, piece := range append(pieces, binary.LittleEndian.AppendUint32(nil, sum)) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// Read says what it put back.
type Read struct {
	Pages, Snapshots int
	Bytes            int64 // of the stream
}

// Restore reads a stream of size bytes into a pool that holds nothing. Before it has seen
// that the stream is for this cache it touches nothing. An error in the middle
// leaves what was whole in front of it.
func Restore(r io.Reader, size int64, shape Shape, pool *kv.Pool, memory Memory) (Read, error) {
	meta, err := readMeta(r, size)
	if err != nil {
		return Read{}, err
	}
	if meta.Shape != shape {
		return Read{}, ErrOther
	}
	in := &reader{r: r, meta: meta, refill: pool.NewRefill(), memory: memory, namespaces: make([]uint32, 0, meta.Pages)}
	in.record = make([]byte, meta.RecordBytes())
	in.state = make([]byte, meta.StateBytes)
	for range meta.Pages {
		if err = in.next(); err != nil {
			break
		}
	}
	in.refill.Done()
	in.done.Bytes = size
	return in.done, err
}

// readMeta reads and checks what stands in front of the records.
func readMeta(r io.Reader, size int64) (m Meta, err error) {
	head := make([]byte, headSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if string(head[:len(magic)]) != magic {
		return m, fmt.Errorf("%w: it begins with something else", ErrDamaged)
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(head[len(magic)+4*i:]) }
	if number(0) != Version {
		return m, ErrOther
	}
	length := int64(number(1))
	if length > metaMax || length > size-int64(headSize) {
		return m, fmt.Errorf("%w: it ends within its first part", ErrDamaged)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if checksum(text) != number(2) {
		return m, fmt.Errorf("%w: its first part has another checksum", ErrDamaged)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := m.validate(size - int64(headSize) - length); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

// validate holds the numbers against the bytes that follow, so that none of them can ask
// for more memory than the stream is long.
func (m Meta) validate(left int64) error {
	switch {
	case m.PageTokens < 1 || m.PageTokens > 1<<16 || m.PageBytes < 0 || m.StateBytes < 0 || m.Pages < 0 || m.Snapshots < 0,
		m.PageBytes > left && m.Pages > 0, m.StateBytes > left && m.Snapshots > 0:
		return errors.New("its sizes are out of bounds")
	case int64(m.Pages) > left/m.RecordBytes() || m.Snapshots > m.Pages,
		int64(m.Pages)*m.RecordBytes()+int64(m.Snapshots)*m.StateBytes != left:
		return fmt.Errorf("%d bytes follow, want those of %d pages and %d snapshots", left, m.Pages, m.Snapshots)
	}
	return nil
}

// reader is a stream that is being read.
type reader struct {
	r      io.Reader
	meta   Meta
	refill *kv.Refill
	memory Memory
	record []byte // of one page
	state  []byte // of one snapshot
	tokens []int32

	namespaces []uint32 // of the records so far
	done       Read
}

// next reads one record and puts it back.
func (in *reader) next() error {
	body, n := in.record[:len(in.record)-4], in.meta.PageTokens
	if _, err := io.ReadFull(in.r, body); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(body[4*i:]) }
	snapshot := number(2)&flagSnapshot != 0
	sum := checksum(body)
	if snapshot {
		if _, err := io.ReadFull(in.r, in.state); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		sum = crc32.Update(sum, castagnoli, in.state)
	}
	if _, err := io.ReadFull(in.r, in.record[len(body):]); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if binary.LittleEndian.Uint32(in.record[len(body):]) != sum {
		return fmt.Errorf("%w: page %d has another checksum", ErrDamaged, len(in.namespaces))
	}
	namespace, parent := number(0), int(int32(number(1)))
	if int64(namespace) >= int64(len(in.meta.Namespaces)) || parent < -1 || parent >= len(in.namespaces) ||
		parent >= 0 && in.namespaces[parent] != namespace {
		return fmt.Errorf("%w: page %d belongs nowhere", ErrDamaged, len(in.namespaces))
	}
	in.namespaces = append(in.namespaces, namespace)
	in.tokens = in.tokens[:0]
	for i := range n {
		in.tokens = append(in.tokens, int32(number(recordHead/4+i)))
	}
	e := kv.Kept{Namespace: in.meta.Namespaces[namespace], Parent: parent, Tokens: in.tokens, State: kv.NoState,
		Hits: number(3), Met: int64(binary.LittleEndian.Uint64(body[16:]))}
	if snapshot {
		e.State = 0
	}
	in.put(e, body[recordHead+4*n:])
	return nil
}

// put brings a whole record to the pool and its bytes to where they belong.
func (in *reader) put(e kv.Kept, page []byte) {
	id, slot, ok := in.refill.Put(e)
	if !ok {
		return
	}
	copy(in.memory.PageMemory(id), page)
	in.done.Pages++
	if slot == kv.NoState {
		return
	}
	at := 0
	for _, piece := range in.memory.StateMemory(slot) {
		at += copy(piece, in.state[at:])
	}
	in.done.Snapshots++
}
