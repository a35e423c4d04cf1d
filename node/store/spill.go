package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"corenode/actors/account"
)

// SpillName is the spill journal's file in the data folder.
const SpillName = "spill.journal"

// ErrSpillFull means that the journal has no room for the rows.
var ErrSpillFull = errors.New("the spill journal is full")

// The file has a header (magic, epoch) and then records (length u32, checksum u32,
// payload), all little endian. The first bytes that are no record end it. The checksum
// covers the epoch, so that records of an earlier use are never read again. A crash may
// leave half a record at the end; nobody was told that its row is durable. If a record
// follows within spillDamageMax of the end, the bytes between are damage. So is an epoch
// that is the rows' own but for one bit.
const (
	spillMagic      = "corenode spill 1"
	spillHeader     = len(spillMagic) + 8
	spillRecordHead = 8
	spillDamageMax  = 1 << 20
)

// Damage is a part of the journal that held rows, or their epoch, and cannot be read any
// more. Its bytes let an operator find the charges.
type Damage struct {
	At    int64
	Bytes []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Spill keeps ledger rows while the database does not take them. Its file has its full
// size from the beginning, so that it works on a full disk. It is safe for concurrent use.
type Spill struct {
	mu    sync.Mutex
	file  *os.File
	size  int64  // of the file
	end   int64  // where the next record goes
	epoch uint64 // of this use of the file
	rows  int    // in the file
	// written is where the farthest write of this epoch ended, failed writes included.
	written int64
	// damaged is what was found between rows when the file was opened.
	damaged []Damage
	// unwritten says that the epoch is not yet durable in the header. Rows that are
	// appended before would not be found.
	unwritten bool
	// given is where the first row begins that Batches gives next. Only Batches and reset use it.
	given int64
	// unread says that Batches found a row that cannot be read. Only Batches uses it.
	unread bool
	// sparse is why the disk was not taken when the file was opened.
	sparse error
}

// OpenSpill opens the journal of a data folder, or makes one of size bytes. A journal
// with rows keeps its size. Batches gives its rows and Damaged what could not be read
// between them.
func OpenSpill(dir string, size int64) (*Spill, error) {
	file, err := Make(filepath.Join(dir, SpillName))
	if err != nil {
		return nil, fmt.Errorf("open spill journal: %w", err)
	}
	s := &Spill{file: file}
	if err := s.open(size); err != nil {
		return nil, errors.Join(fmt.Errorf("open spill journal of %d bytes: %w", size, err), file.Close())
	}
	return s, nil
}

// SpilledRows counts the rows in the journal of a data folder that no node has open, and changes nothing. A folder without a
// journal has none.
func SpilledRows(dir string) (int, error) {
	file, err := os.Open(filepath.Join(dir, SpillName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open spill journal: %w", err)
	}
	defer file.Close()
	is := content{}
	info, err := file.Stat()
	if err == nil {
		is, err = (&Spill{file: file, size: info.Size()}).walk()
	}
	if err != nil {
		return 0, fmt.Errorf("read spill journal: %w", err)
	}
	return is.rows, nil
}

// They ask the file system. Tests put another one in its place.
var (
	allocate, isTaken = fallocate, hasDisk
	writeAt, syncFile = (*os.File).WriteAt, (*os.File).Sync
	truncate          = (*os.File).Truncate
)

func (s *Spill) open(size int64) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.size = info.Size()
	is, err := s.walk()
	if err != nil {
		return err
	}
	s.epoch, s.end, s.damaged, s.given = is.epoch, is.end, is.damaged, int64(spillHeader)
	if s.rows = is.rows; s.rows > 0 {
		return nil
	}
	if s.size != size {
		if err := s.resize(size); err != nil {
			return err
		}
		s.size, s.sparse = size, noDisk(s.file, size)
	} else if !isTaken(s.file, size) {
		if s.sparse, err = s.fill(size); err != nil {
			return err
		}
	}
	return s.reset()
}

// noDisk is an error where a file has less disk than its size bytes, though nothing was refused: ZFS says that it takes the disk, and
// does so only for rows that are written.
func noDisk(file *os.File, size int64) error {
	if isTaken(file, size) {
		return nil
	}
	return errors.New("the file system takes no disk for its zeros")
}

// fill takes the disk for a file without rows that has its size. sparse says why it is not taken: where that was refused, nothing of
// the disk stays taken.
func (s *Spill) fill(size int64) (sparse, err error) {
	sparse = allocate(s.file, size)
	if errors.Is(sparse, errors.ErrUnsupported) && s.takesZeros(size) {
		return nil, nil
	}
	if sparse != nil {
		return sparse, cmp.Or(truncate(s.file, 0), truncate(s.file, size))
	}
	return noDisk(s.file, size), nil
}

// takesZeros writes zeros into a file without rows, and says whether they take its disk. Where a few do not, as on a file
// system that compresses, it leaves it at that.
func (s *Spill) takesZeros(size int64) bool {
	const few = 1 << 20
	for _, n := range []int64{min(few, size), size} {
		if writeZeros(s.file, n) != nil || !isTaken(s.file, n) {
			return false
		}
	}
	return true
}

// resize makes a file without rows anew. Where the disk has no room for it, nothing of it stays: some file systems
// take all that there is before they say so.
func (s *Spill) resize(size int64) error {
	err := truncate(s.file, 0)
	if err == nil {
		err = preallocate(s.file, size)
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, truncate(s.file, 0))
	free := ""
	if n, known := FreeBytes(s.file); known {
		free = fmt.Sprintf(": %d bytes of the disk are free", n)
	}
	return fmt.Errorf("%w%s; free what it takes, or lower ledger.spill_bytes", err, free)
}

// content is what a walk finds: how many rows, the damage between them, and where they end.
type content struct {
	rows    int
	damaged []Damage
	epoch   uint64
	end     int64
}

// walk reads the epoch and all records, and keeps none: the file may be larger than the
// memory. It changes nothing: if a failed read moved the end, the next row would overwrite
// others. For the same reason a file that is not empty and has no header is an error and
// not a new journal.
func (s *Spill) walk() (content, error) {
	head := make([]byte, spillHeader+spillRecordHead)
	n, err := s.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return content{}, err
	}
	switch head = head[:n]; {
	case len(bytes.Trim(head, "\x00")) == 0:
		return content{}, nil // new, or a crash came before its first use
	case n < spillHeader || string(head[:len(spillMagic)]) != spillMagic:
		return content{}, fmt.Errorf("the header is damaged: %.16q, want %q", head, spillMagic)
	}
	is := content{epoch: binary.LittleEndian.Uint64(head[len(spillMagic):]), end: int64(spillHeader)}
	if err := s.mendEpoch(&is); err != nil {
		return content{}, err
	}
	for {
		payload, err := s.record(is.epoch, is.end, s.size)
		if err != nil {
			return content{}, err
		}
		if payload == nil {
			gap, err := s.gap(is.epoch, is.end, s.size)
			if err != nil || gap == nil {
				return is, err
			}
			is.damaged = append(is.damaged, Damage{is.end, gap})
			is.end += int64(len(gap))
			continue
		}
		if err := json.Unmarshal(payload, new(account.Entry)); err != nil {
			return content{}, fmt.Errorf("record at byte %d: %w", is.end, err)
		}
		is.rows++
		is.end += int64(spillRecordHead + len(payload))
	}
}

// gap reads the bytes from at to the next record before limit. It returns nil if there is
// none within spillDamageMax.
func (s *Spill) gap(epoch uint64, at, limit int64) ([]byte, error) {
	text := make([]byte, max(0, min(spillDamageMax, limit-at)))
	if _, err := s.file.ReadAt(text, at); err != nil {
		return nil, err
	}
	for i := 1; i+spillRecordHead < len(text); i++ {
		rest := text[i+spillRecordHead:]
		n := uint64(binary.LittleEndian.Uint32(text[i:]))
		if n == 0 || n > uint64(len(rest)) || rest[0] != '{' || rest[n-1] != '}' { // no row: its checksum is not needed
			continue
		}
		if binary.LittleEndian.Uint32(text[i+4:]) == checksum(epoch, rest[:n]) {
			return bytes.Clone(text[:i]), nil // a clone, so that text can be freed
		}
	}
	return nil, nil
}

// mendEpoch finds the bit of the epoch that flipped: the one without which the first record is of that epoch. Nobody would find the rows
// of another epoch, so that would lose them all without a word.
func (s *Spill) mendEpoch(is *content) error {
	payload, sum, err := s.read(is.end, s.size)
	if err != nil || payload == nil || sum == checksum(is.epoch, payload) {
		return err
	}
	for bit := range 64 {
		if epoch := is.epoch ^ 1<<bit; sum == checksum(epoch, payload) {
			is.damaged = append(is.damaged, Damage{int64(len(spillMagic)), binary.LittleEndian.AppendUint64(nil, is.epoch)})
			is.epoch = epoch
			return nil
		}
	}
	return nil
}

// record reads the payload of the record at a byte. It returns nil if there is no record
// before limit.
func (s *Spill) record(epoch uint64, at, limit int64) ([]byte, error) {
	payload, sum, err := s.read(at, limit)
	if err != nil || payload == nil || sum != checksum(epoch, payload) {
		return nil, err
	}
	return payload, nil
}

// read reads what is at a byte where that has the length of a record before limit. Otherwise it returns nil.
func (s *Spill) read(at, limit int64) (payload []byte, sum uint32, err error) {
	var head [spillRecordHead]byte
	if at+spillRecordHead > limit {
		return nil, 0, nil
	}
	if _, err := s.file.ReadAt(head[:], at); err != nil {
		return nil, 0, err
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n == 0 || at+spillRecordHead+n > limit {
		return nil, 0, nil
	}
	payload = make([]byte, n)
	if _, err := s.file.ReadAt(payload, at+spillRecordHead); err != nil {
		return nil, 0, err
	}
	return payload, binary.LittleEndian.Uint32(head[4:]), nil
}

func checksum(epoch uint64, payload []byte) uint32 {
	var prefix [8]byte
	binary.LittleEndian.PutUint64(prefix[:], epoch)
	return crc32.Update(crc32.Checksum(prefix[:], castagnoli), castagnoli, payload)
}

// Append writes rows and returns when all of them are durable. After an error none is in
// the journal.
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
	// Zeros follow the rows. They overwrite the rows of a failed write: when the file is
	// opened, such a row would make the bytes before it look damaged.
	end := next + spillRecordHead
	s.written = max(s.written, end)
	text = append(text, make([]byte, s.written-next)...)
	if _, err := writeAt(s.file, text, s.end); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	if err := syncFile(s.file); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	s.end, s.written = next, end
	s.rows += len(entries)
	return nil
}

// Batches gives put all rows in the order in which they were appended, n at a time, until
// it fails; all of them stay in the file. put says how many from the first one it took, one at
// least unless it fails: those are not given again before the journal is opened again. No more
// than a batch is in memory, and nothing waits for the journal meanwhile; but nobody may append
// or reset. The first batch is given before more is read, and the second when all rows can be
// read: if one cannot, Batches returns an error, and the next call gives nothing before that row
// can be read. Damaged has what could not be read when the file was opened.
func (s *Spill) Batches(n int, put func([]account.Entry) (taken int, err error)) error {
	s.mu.Lock()
	is := content{s.rows, s.damaged, s.epoch, s.end}
	s.mu.Unlock()
	looked := false
	for s.given < is.end {
		if s.unread {
			if err := s.look(is, s.given); err != nil {
				return err
			}
			looked, s.unread = true, false
		}
		batch, ends, err := s.batch(is, s.given, n)
		if err != nil {
			return fmt.Errorf("read spill journal: %w", err)
		}
		taken, err := put(batch)
		if taken > 0 {
			s.given = ends[taken-1]
		}
		if err != nil {
			return err
		}
		if !looked {
			if err := s.look(is, s.given); err != nil {
				s.unread = true
				return err
			}
			looked = true
		}
	}
	return nil
}

// look reads all rows from a byte on, and keeps none.
func (s *Spill) look(is content, at int64) (err error) {
	for at < is.end {
		if _, at, err = s.next(is, at); err != nil {
			return fmt.Errorf("read spill journal: %w", err)
		}
	}
	return nil
}

// batch reads up to n rows from a byte on and returns where each of them ends.
func (s *Spill) batch(is content, at int64, n int) (rows []account.Entry, ends []int64, err error) {
	for at < is.end && len(rows) < n {
		payload, next, err := s.next(is, at)
		if err != nil {
			return nil, nil, err
		}
		var e account.Entry
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, nil, fmt.Errorf("record at byte %d: %w", at, err)
		}
		rows, ends, at = append(rows, e), append(ends, next), next
	}
	return rows, ends, nil
}

// next reads the record at a byte, or behind the damage that was found there at the open.
// That it is no record any more is an error.
func (s *Spill) next(is content, at int64) (payload []byte, next int64, err error) {
	if i, there := slices.BinarySearchFunc(is.damaged, at, func(d Damage, at int64) int { return cmp.Compare(d.At, at) }); there {
		at += int64(len(is.damaged[i].Bytes))
	}
	if payload, err = s.record(is.epoch, at, is.end); err == nil && payload == nil {
		err = fmt.Errorf("the record at byte %d is damaged", at)
	}
	return payload, at + int64(spillRecordHead+len(payload)), err
}

// Damaged returns the damage that was found between rows when the file was opened.
func (s *Spill) Damaged() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged
}

// Sparse says why a journal that has its size could not get all of its disk. A full disk may refuse its rows then.
func (s *Spill) Sparse() error { return s.sparse }

// Reset removes all rows. Call it when the database has them.
func (s *Spill) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reset(); err != nil {
		return fmt.Errorf("reset spill journal: %w", err)
	}
	return nil
}

// reset begins a new epoch. Until that is durable the file has the old rows; the database
// ignores rows that it is given twice.
func (s *Spill) reset() error {
	s.epoch, s.end, s.rows, s.written, s.damaged, s.unwritten = rand.Uint64(), int64(spillHeader), 0, 0, nil, true
	s.given = s.end
	head := binary.LittleEndian.AppendUint64([]byte(spillMagic), s.epoch)
	if _, err := writeAt(s.file, append(head, make([]byte, spillRecordHead)...), 0); err != nil {
		return err
	}
	if err := syncFile(s.file); err != nil {
		return err
	}
	s.unwritten = false
	return nil
}

// Rows returns the number of rows in the journal.
func (s *Spill) Rows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
}

// Room returns how many bytes are free.
func (s *Spill) Room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.end
}

// Close closes the file. Its rows stay.
func (s *Spill) Close() error { return s.file.Close() }

// preallocate makes an empty file size bytes long, and takes the disk for them, without writing them where the file system can.
func preallocate(file *os.File, size int64) error {
	err := allocate(file, size)
	if errors.Is(err, errors.ErrUnsupported) {
		return writeZeros(file, size)
	}
	if err != nil {
		return err
	}
	return syncFile(file)
}

// writeZeros makes the file size bytes long by writing zeros.
func writeZeros(file *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := writeAt(file, zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return syncFile(file)
}
