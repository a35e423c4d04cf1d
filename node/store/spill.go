package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"corenode/actors/account"
)

// SpillName is the spill journal's file in the data folder.
const SpillName = "spill.journal"

// ErrSpillFull means that the journal has no room for the rows.
var ErrSpillFull = errors.New("the spill journal is full")

// The file is a header (magic, epoch) and records (length u32, checksum u32,
// payload), little endian, up to bytes that are no record. The checksum covers
// the epoch, so that what an earlier use left behind the end is never read
// again; a record that a crash tore apart was answered to nobody. When records
// follow within spillDamageMax after all, what is between was damaged.
const (
	spillMagic      = "corenode spill 1"
	spillHeader     = len(spillMagic) + 8
	spillRecordHead = 8
	spillDamageMax  = 1 << 20
)

// Damage is bytes of the journal that were rows and are not any more, for
// people to read the charge from.
type Damage struct {
	At    int64
	Bytes []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Spill keeps ledger rows while the database does not take them. Its file has
// its full size from the beginning, so that a full disk does not stop it. It is
// safe for concurrent use.
type Spill struct {
	mu    sync.Mutex
	file  *os.File
	size  int64  // of the file
	end   int64  // where the next record goes
	epoch uint64 // of this use of the file
	rows  int    // in the file
	// written is how far writes of this epoch went, those that failed too.
	written int64
	// damaged is what lies between rows, found when the file was opened.
	damaged []Damage
	// unwritten: the header does not have the epoch yet, durably, and without
	// it no row would be found.
	unwritten bool
}

// OpenSpill opens the journal of a data folder, or makes one of so many bytes.
// One that holds rows keeps its size; Entries gives them, and Damaged what could
// not be read between them.
func OpenSpill(dir string, size int64) (*Spill, error) {
	file, err := os.OpenFile(filepath.Join(dir, SpillName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open spill journal: %w", err)
	}
	s := &Spill{file: file}
	if err := s.open(size); err != nil {
		return nil, errors.Join(fmt.Errorf("open spill journal of %d bytes: %w", size, err), file.Close())
	}
	return s, nil
}

func (s *Spill) open(size int64) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.size = info.Size()
	is, err := s.walk(s.size)
	if err != nil {
		return err
	}
	s.epoch, s.end, s.damaged = is.epoch, is.end, is.damaged
	if s.rows = len(is.entries); s.rows > 0 {
		return nil
	}
	if s.size != size {
		if err := errors.Join(s.file.Truncate(0), preallocate(s.file, size)); err != nil {
			return err
		}
		s.size = size
	}
	return s.reset()
}

// content is what a walk finds: rows, what lies between them, and where they end.
type content struct {
	entries []account.Entry
	damaged []Damage
	epoch   uint64
	end     int64
}

// walk reads the epoch and the records before limit. It changes nothing: a
// read that goes wrong must not move the end, or the next row overwrites others.
// For the same reason a file that has something without a header is no new one.
func (s *Spill) walk(limit int64) (content, error) {
	head := make([]byte, spillHeader+spillRecordHead)
	n, err := s.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return content{}, err
	}
	switch head = head[:n]; {
	case len(bytes.Trim(head, "\x00")) == 0:
		return content{}, nil // new, or made by a crash before its first use
	case n < spillHeader || string(head[:len(spillMagic)]) != spillMagic:
		return content{}, fmt.Errorf("the header is damaged: %.16q, want %q", head, spillMagic)
	}
	is := content{epoch: binary.LittleEndian.Uint64(head[len(spillMagic):]), end: int64(spillHeader)}
	for {
		payload, err := s.record(is.epoch, is.end, limit)
		if err != nil {
			return content{}, err
		}
		if payload == nil {
			gap, err := s.gap(is.epoch, is.end, limit)
			if err != nil || gap == nil {
				return is, err
			}
			is.damaged = append(is.damaged, Damage{is.end, gap})
			is.end += int64(len(gap))
			continue
		}
		var e account.Entry
		if err := json.Unmarshal(payload, &e); err != nil {
			return content{}, fmt.Errorf("record at byte %d: %w", is.end, err)
		}
		is.entries = append(is.entries, e)
		is.end += int64(spillRecordHead + len(payload))
	}
}

// gap reads the bytes between one that begins no record and the next record
// before limit; nil when none is within spillDamageMax.
func (s *Spill) gap(epoch uint64, at, limit int64) ([]byte, error) {
	text := make([]byte, max(0, min(spillDamageMax, limit-at)))
	if _, err := s.file.ReadAt(text, at); err != nil {
		return nil, err
	}
	for i := 1; i+spillRecordHead < len(text); i++ {
		rest := text[i+spillRecordHead:]
		n := uint64(binary.LittleEndian.Uint32(text[i:]))
		if n == 0 || n > uint64(len(rest)) || rest[0] != '{' || rest[n-1] != '}' { // no row: spares its checksum
			continue
		}
		if binary.LittleEndian.Uint32(text[i+4:]) == checksum(epoch, rest[:n]) {
			return bytes.Clone(text[:i]), nil // not all that was read
		}
	}
	return nil, nil
}

// record reads the payload at a byte; nil when there is no record before limit.
func (s *Spill) record(epoch uint64, at, limit int64) ([]byte, error) {
	var head [spillRecordHead]byte
	if at+spillRecordHead > limit {
		return nil, nil
	}
	if _, err := s.file.ReadAt(head[:], at); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n == 0 || at+spillRecordHead+n > limit {
		return nil, nil
	}
	payload := make([]byte, n)
	if _, err := s.file.ReadAt(payload, at+spillRecordHead); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(head[4:]) != checksum(epoch, payload) {
		return nil, nil
	}
	return payload, nil
}

func checksum(epoch uint64, payload []byte) uint32 {
	var prefix [8]byte
	binary.LittleEndian.PutUint64(prefix[:], epoch)
	return crc32.Update(crc32.Checksum(prefix[:], castagnoli), castagnoli, payload)
}

// Append writes rows and returns when they are durable: all of them or, with
// an error, none.
func (s *Spill) Append(entries []account.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unwritten {
		if err := s.reset(); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
	}
	var text []byte
	for _, e := range entries {
		payload, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		text = binary.LittleEndian.AppendUint32(text, uint32(len(payload)))
		text = binary.LittleEndian.AppendUint32(text, checksum(s.epoch, payload))
		text = append(text, payload...)
	}
	next := s.end + int64(len(text))
	if next+spillRecordHead > s.size {
		return fmt.Errorf("spill %d rows: %w", len(entries), ErrSpillFull)
	}
	// The end, and no row of a write that failed behind it: an open would take what
	// is before such a row for damage.
	end := next + spillRecordHead
	s.written = max(s.written, end)
	text = append(text, make([]byte, s.written-next)...)
	if _, err := s.file.WriteAt(text, s.end); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	s.end, s.written = next, end
	s.rows += len(entries)
	return nil
}

// Entries returns the rows in the order in which they were appended: all of
// them or, with an error, none. Rows that cannot be read stay where they are;
// those that could not be when the file was opened are in Damaged.
func (s *Spill) Entries() ([]account.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, err := s.walk(s.end)
	if err == nil && (is.end != s.end || len(is.entries) != s.rows) {
		err = fmt.Errorf("a record is damaged: %d of %d rows can be read", len(is.entries), s.rows)
	}
	if err != nil {
		return nil, fmt.Errorf("read spill journal: %w", err)
	}
	return is.entries, nil
}

// Damaged returns what lies between the rows that the opened file has.
func (s *Spill) Damaged() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged
}

// Reset forgets all rows: the database has them.
func (s *Spill) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reset(); err != nil {
		return fmt.Errorf("reset spill journal: %w", err)
	}
	return nil
}

// reset begins a new epoch. Until it is durable the old rows stand; appending
// them again changes nothing.
func (s *Spill) reset() error {
	s.epoch, s.end, s.rows, s.written, s.damaged, s.unwritten = rand.Uint64(), int64(spillHeader), 0, 0, nil, true
	head := binary.LittleEndian.AppendUint64([]byte(spillMagic), s.epoch)
	if _, err := s.file.WriteAt(append(head, make([]byte, spillRecordHead)...), 0); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.unwritten = false
	return nil
}

// Rows is how many rows wait in the journal.
func (s *Spill) Rows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
}

// Room is how many bytes are free.
func (s *Spill) Room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.end
}

// Close closes the file; its rows stay.
func (s *Spill) Close() error { return s.file.Close() }

// writeZeros takes so many bytes of disk by writing them.
func writeZeros(file *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := file.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return file.Sync()
}
