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
// payload), little endian, up to a record of length 0 or one whose checksum is
// wrong. The checksum covers the epoch, so that what an earlier use left behind
// the end is never read again; a record that a crash tore apart was answered
// to nobody.
const (
	spillMagic      = "corenode spill 1"
	spillHeader     = len(spillMagic) + 8
	spillRecordHead = 8
)

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
	// unwritten: the header does not have the epoch yet, durably, and without
	// it no row would be found.
	unwritten bool
}

// OpenSpill opens the journal of a data folder, or makes one of so many bytes.
// One that holds rows keeps its size; Entries gives them.
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
	entries, epoch, end, err := s.walk(s.size)
	if err != nil {
		return err
	}
	s.epoch, s.end = epoch, end
	if s.rows = len(entries); s.rows > 0 {
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

// walk reads the epoch and the records before limit. It changes nothing: a
// read that goes wrong must not move the end, or the next row overwrites others.
// For the same reason a file that has something without a header is no new one.
func (s *Spill) walk(limit int64) (entries []account.Entry, epoch uint64, end int64, err error) {
	head := make([]byte, spillHeader+spillRecordHead)
	n, err := s.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, 0, err
	}
	switch head = head[:n]; {
	case len(bytes.Trim(head, "\x00")) == 0:
		return nil, 0, 0, nil // new, or made by a crash before its first use
	case n < spillHeader || string(head[:len(spillMagic)]) != spillMagic:
		return nil, 0, 0, fmt.Errorf("the header is damaged: %.16q, want %q", head, spillMagic)
	}
	epoch = binary.LittleEndian.Uint64(head[len(spillMagic):])
	end = int64(spillHeader)
	for {
		payload, err := s.record(epoch, end, limit)
		if err != nil || payload == nil {
			return entries, epoch, end, err
		}
		var e account.Entry
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, 0, 0, fmt.Errorf("record at byte %d: %w", end, err)
		}
		entries = append(entries, e)
		end += int64(spillRecordHead + len(payload))
	}
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
	text = append(text, make([]byte, spillRecordHead)...) // the end
	if _, err := s.file.WriteAt(text, s.end); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	s.end = next
	s.rows += len(entries)
	return nil
}

// Entries returns the rows in the order in which they were appended: all of
// them or, with an error, none. Rows that cannot be read stay where they are.
func (s *Spill) Entries() ([]account.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, _, end, err := s.walk(s.end)
	if err == nil && (end != s.end || len(entries) != s.rows) {
		err = fmt.Errorf("the record at byte %d is damaged: %d of %d rows can be read", end, len(entries), s.rows)
	}
	if err != nil {
		return nil, fmt.Errorf("read spill journal: %w", err)
	}
	return entries, nil
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
	s.epoch, s.end, s.rows, s.unwritten = rand.Uint64(), int64(spillHeader), 0, true
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
