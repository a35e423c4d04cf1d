package keep

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"corenode/engine/kv"
)

// plain is the memory of a small cache.
type plain struct {
	pages, states [][]byte
}

func newPlain(c kv.Config) *plain {
	m := &plain{}
	for range c.Pages {
		m.pages = append(m.pages, make([]byte, c.PageBytes))
	}
	for range c.States {
		m.states = append(m.states, make([]byte, c.StateBytes))
	}
	return m
}

func (m *plain) PageMemory(id int32) []byte { return m.pages[id] }

func (m *plain) StateMemory(slot int32) [][]byte {
	return [][]byte{m.states[slot][:3], m.states[slot][3:]}
}

func config() kv.Config {
	return kv.Config{Pages: 8, PageTokens: 16, PageBytes: 40, States: 4, SnapshotsMax: 3, StateBytes: 12}
}

func shape() Shape {
	return Shape{Model: "digest", Level: "cpu/x", KV: "f16", PageTokens: 16, PageBytes: 40, StateBytes: 12}
}

// sample is a stream of two namespaces with two pages and a snapshot each.
func sample(t testing.TB) []byte {
	t.Helper()
	m := newPlain(config())
	var entries []kv.Kept
	for i := range 4 {
		k := kv.Kept{Namespace: []string{"a\x00m", "b\x00m"}[i/2], Parent: -1, Page: int32(i), Tokens: make([]int32, 16), State: kv.NoState,
			Hits: uint32(i), Met: int64(i)}
		if i%2 == 1 {
			k.Parent, k.State = i-1, int32(i/2)
			m.states[i/2][5] = byte(i)
		}
		k.Tokens[3], m.pages[i][7] = int32(i), byte(100+i)
		entries = append(entries, k)
	}
	var b bytes.Buffer
	if err := Write(&b, shape(), entries, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func restore(t testing.TB, data []byte) (*kv.Pool, *plain, Read, error) {
	t.Helper()
	pool, err := kv.New(config())
	if err != nil {
		t.Fatal(err)
	}
	m := newPlain(config())
	read, err := Restore(bytes.NewReader(data), int64(len(data)), shape(), pool, m)
	if err := pool.Check(); err != nil {
		t.Fatal(err)
	}
	return pool, m, read, err
}

// TestWrittenIsRead: pages and snapshots come back with their bytes, each where its tokens
// find it.
func TestWrittenIsRead(t *testing.T) {
	pool, m, read, err := restore(t, sample(t))
	if err != nil || read.Pages != 4 || read.Snapshots != 2 {
		t.Fatalf("%+v, %v", read, err)
	}
	tokens := make([]int32, 33)
	tokens[3], tokens[19] = 2, 3
	var table kv.Table
	if cached, _ := pool.Open(&table, "b\x00m", tokens); cached != 32 {
		t.Fatalf("%d tokens are cached", cached)
	}
	op, err := pool.TakeState(&table)
	if err != nil {
		t.Fatal(err)
	}
	if a, b, s := m.pages[table.Pages[0]][7], m.pages[table.Pages[1]][7], m.states[op.Src][5]; a != 102 || b != 103 || s != 3 {
		t.Errorf("the bytes are %d, %d and %d", a, b, s)
	}
}

// TestAnEmptyCacheIsRead: that of a model that nobody asked is whole.
func TestAnEmptyCacheIsRead(t *testing.T) {
	of := shape()
	of.PageBytes = 1 << 20 // longer than the stream
	var b bytes.Buffer
	if err := Write(&b, of, nil, newPlain(config())); err != nil {
		t.Fatal(err)
	}
	pool, err := kv.New(config())
	if err != nil {
		t.Fatal(err)
	}
	if read, err := Restore(&b, int64(b.Len()), of, pool, newPlain(config())); err != nil || read.Pages != 0 {
		t.Errorf("%+v, %v", read, err)
	}
}

// TestDamageIsSeen flips every byte and cuts at every length: what comes back is an error,
// and what was whole in front of it at most.
func TestDamageIsSeen(t *testing.T) {
	whole := sample(t)
	for n := range len(whole) {
		if _, _, read, err := restore(t, whole[:n]); err == nil || read.Pages > 0 {
			t.Fatalf("cut at %d: %d pages, %v", n, read.Pages, err)
		}
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x10
		_, _, read, err := restore(t, flipped)
		if err == nil || read.Pages >= 4 {
			t.Fatalf("byte %d: %d pages, %v", n, read.Pages, err)
		}
	}
	if _, _, _, err := restore(t, append(bytes.Clone(whole), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
}

// FuzzRestore: no stream breaks a pool's rules, whatever its checksums say.
func FuzzRestore(f *testing.F) {
	whole := sample(f)
	f.Add(whole, uint16(0), byte(0))
	f.Add(whole[:len(whole)-9], uint16(3), byte(1))
	f.Add(whole, uint16(len(whole)-100), byte(7))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, value byte) {
		restore(t, data)
		edited := bytes.Clone(whole)
		edited[int(at)%len(edited)] ^= value
		restore(t, sealed(edited))
	})
}

// sealed makes the checksums of a stream of sample's size right again.
func sealed(b []byte) []byte {
	length := int(binary.LittleEndian.Uint32(b[len(magic)+4:]))
	if length > len(b)-headSize {
		return b
	}
	binary.LittleEndian.PutUint32(b[len(magic)+8:], checksum(b[headSize:headSize+length]))
	at := headSize + length
	for at+recordHead < len(b) {
		n := int(shape().RecordBytes()) - 4
		if binary.LittleEndian.Uint32(b[at+8:])&flagSnapshot != 0 {
			n += int(shape().StateBytes)
		}
		if at+n+4 > len(b) {
			return b
		}
		binary.LittleEndian.PutUint32(b[at+n:], checksum(b[at:at+n]))
		at += n + 4
	}
	return b
}

// BenchmarkRestore is how long a start waits for what was kept, beside reading it from the disk.
func BenchmarkRestore(b *testing.B) {
	c := kv.Config{Pages: 1024, PageTokens: 32, PageBytes: 256 << 10}
	s := Shape{PageTokens: 32, PageBytes: 256 << 10}
	m := newPlain(c)
	entries := make([]kv.Kept, c.Pages)
	for i := range entries {
		entries[i] = kv.Kept{Namespace: "a", Parent: i - 1, Page: int32(i), Tokens: make([]int32, 32), State: kv.NoState}
	}
	var stream bytes.Buffer
	if err := Write(&stream, s, entries, m); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(stream.Len()))
	for b.Loop() {
		pool, err := kv.New(c)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Restore(bytes.NewReader(stream.Bytes()), int64(stream.Len()), s, pool, m); err != nil {
			b.Fatal(err)
		}
	}
}
