package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

func spilled(n int) []account.Entry {
	entries := make([]account.Entry, n)
	for i := range entries {
		entries[i] = account.Entry{Kind: account.Settlement, AccountID: "acct", RequestID: string(rune('a' + i)),
			Time: time.Unix(0, int64(i)).UTC(), Amount: -5,
			Usage: abi.Usage{Output: 3}, Reason: account.Finished, ChargeInput: []byte{1, 0, 255}, Note: "\"quoted\"\n"}
	}
	return entries
}

func openSpill(t *testing.T, dir string, size int64) *Spill {
	t.Helper()
	s, err := OpenSpill(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// rowsOf reads all rows of a journal, two at a time, and none is given by that.
func rowsOf(s *Spill) (rows []account.Entry, err error) {
	defer func(given int64) { s.given = given }(s.given)
	err = s.Batches(2, func(batch []account.Entry) (int, error) {
		rows = append(rows, batch...)
		return len(batch), nil
	})
	return rows, err
}

func wantSpilled(t *testing.T, s *Spill, want []account.Entry) {
	t.Helper()
	got, err := rowsOf(s)
	if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) || s.Rows() != len(want) {
		t.Errorf("%d rows, %v: %+v; want %d", s.Rows(), err, got, len(want))
	}
}

// TestSpillLargerThanTheDisk: where the disk has no room for a journal, what was taken of it is free again, whether the
// journal is new or had another size.
func TestSpillLargerThanTheDisk(t *testing.T) {
	for _, before := range []int64{0, 64 << 10} {
		dir := t.TempDir()
		if before > 0 {
			openSpill(t, dir, before).Close()
		}
		allocate = func(file *os.File, size int64) error { return errors.Join(writeZeros(file, 1<<20), syscall.ENOSPC) }
		s, err := OpenSpill(dir, 1<<40)
		allocate = fallocate
		if err == nil {
			s.Close()
			t.Fatal("it was opened")
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "ledger.spill_bytes") {
			t.Error(err)
		}
		if info, err := os.Stat(filepath.Join(dir, SpillName)); err != nil || info.Size() > 0 {
			t.Errorf("the journal has %d bytes, %v", info.Size(), err)
		}
		wantSpilled(t, openSpill(t, dir, before+4<<10), nil)
	}
}

// TestSpillWhereZerosTakeNoDisk: a file system that compresses says of each journal that it has holes. One that has its size is
// opened as it is, also where they cannot be filled.
func TestSpillWhereZerosTakeNoDisk(t *testing.T) {
	t.Cleanup(func() { allocate, isTaken = fallocate, hasDisk })
	for _, refusal := range []error{nil, syscall.ENOSPC, syscall.EOPNOTSUPP} {
		const size = 4 << 20
		dir := t.TempDir()
		openSpill(t, dir, size).Close()
		asked, written := int64(0), int64(0)
		isTaken = func(_ *os.File, of int64) bool {
			written = of
			return false
		}
		allocate = func(file *os.File, size int64) error {
			info, err := file.Stat()
			if err == nil {
				asked = info.Size()
			}
			return errors.Join(err, refusal)
		}
		s := openSpill(t, dir, size)
		allocate, isTaken = fallocate, hasDisk
		if written == size && refusal == syscall.EOPNOTSUPP {
			t.Error("all of the journal is written, and a part of it had taken no disk")
		}
		if asked != size || s.Sparse() == nil || refusal != nil && !errors.Is(s.Sparse(), refusal) {
			t.Errorf("the disk for %d bytes was asked for, and the journal says %v, want %v", asked, s.Sparse(), refusal)
		}
		rows := spilled(1)
		if err := s.Append(rows); err != nil {
			t.Error(err)
		}
		wantSpilled(t, s, rows)
	}
}

// TestSpillWhereTheDiskIsOnlyPromised: a file system that says that it takes the disk, and has taken none, as ZFS, is named at each
// open, and nothing of the file is cut.
func TestSpillWhereTheDiskIsOnlyPromised(t *testing.T) {
	t.Cleanup(func() { allocate, isTaken = fallocate, hasDisk })
	allocate = func(file *os.File, size int64) error { return file.Truncate(size) }
	isTaken = func(*os.File, int64) bool { return false }
	const size = 64 << 10
	dir := t.TempDir()
	for _, open := range []string{"new", "of its size"} {
		s := openSpill(t, dir, size)
		if s.Sparse() == nil || s.Room() != size-int64(spillHeader) {
			t.Errorf("%s: it says %v, and has room for %d bytes", open, s.Sparse(), s.Room())
		}
		rows := spilled(1)
		if err := errors.Join(s.Append(rows), s.Reset()); err != nil {
			t.Errorf("%s: %v", open, err)
		}
	}
}

func TestSpillKeepsRowsAcrossOpens(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 64<<10)
	wantSpilled(t, s, nil)
	rows := spilled(9)
	for i := range rows {
		if err := s.Append(rows[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = openSpill(t, dir, 1<<10) // one with rows keeps its size
	wantSpilled(t, s, rows)
	more := spilled(2)
	if err := s.Append(more); err != nil {
		t.Fatal(err)
	}
	wantSpilled(t, s, append(rows, more...))
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	wantSpilled(t, s, nil)
	// What the earlier use left behind the new end is not read again.
	if err := s.Append(rows[:1]); err != nil {
		t.Fatal(err)
	}
	wantSpilled(t, s, rows[:1])
	s.Close()
	wantSpilled(t, openSpill(t, dir, 64<<10), rows[:1])
}

func TestSpillIsBounded(t *testing.T) {
	s := openSpill(t, t.TempDir(), 4<<10)
	rows := spilled(1)
	n := 0
	for ; n < 100; n++ {
		if err := s.Append(rows); err != nil {
			if !errors.Is(err, ErrSpillFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 5 || n == 100 || s.Rows() != n || s.Room() < 0 {
		t.Errorf("%d rows fit 4 KiB, room %d", n, s.Room())
	}
}

// TestSpillIsReadInBatches: rows come in order, so many at a time, and the journal's
// lock is free meanwhile. Before the first batch is taken no more is read, and the
// others come only if all of them can be read.
func TestSpillIsReadInBatches(t *testing.T) {
	s := openSpill(t, t.TempDir(), 64<<10)
	rows := spilled(7)
	if err := s.Append(rows[:5]); err != nil {
		t.Fatal(err)
	}
	bad := s.end + spillRecordHead // the sixth row begins here
	if err := s.Append(rows[5:]); err != nil {
		t.Fatal(err)
	}
	var got []account.Entry
	take := func(batch []account.Entry) (int, error) {
		if s.mu.TryLock() {
			s.mu.Unlock()
		} else {
			t.Error("who asks for room waits for the reader")
		}
		if len(batch) > 2 {
			t.Errorf("%d rows at a time, want 2", len(batch))
		}
		got = append(got, batch...)
		return len(batch), nil
	}
	if got, err := rowsOf(s); err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("%d of %d rows, %v: %+v", len(got), len(rows), err, got)
	}
	if _, err := s.file.WriteAt([]byte{'?'}, bad); err != nil {
		t.Fatal(err)
	}
	got = nil
	if err := s.Batches(2, take); err == nil || !reflect.DeepEqual(got, rows[:2]) {
		t.Errorf("a damaged record behind: %v, with %d rows given, want the first batch", err, len(got))
	}
	if err := s.Batches(2, take); err == nil || !reflect.DeepEqual(got, rows[:2]) {
		t.Errorf("the second time: %v, with %d rows given, want no batch again", err, len(got))
	}
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(rows); err != nil {
		t.Fatal(err)
	}
	got = nil
	if err := s.Batches(2, take); err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("all can be read again: %v, with %d rows given", err, len(got))
	}
}

// TestSpillGivesNoRowTwice: what was taken is not given again, be it a part of a batch, until a
// journal begins anew or is opened again.
func TestSpillGivesNoRowTwice(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 64<<10)
	rows, away := spilled(6), errors.New("the store is away")
	if err := s.Append(rows); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ calls, taken, from int }{{1, 0, 0}, {2, 1, 0}, {1, 0, 3}, {1, 2, 3}, {1, 0, 5}} {
		var got []account.Entry
		tried := 0
		err := s.Batches(2, func(batch []account.Entry) (int, error) {
			got = append(got, batch...)
			if tried++; tried < c.calls {
				return len(batch), nil
			}
			return c.taken, away
		})
		if !errors.Is(err, away) || tried != c.calls || !reflect.DeepEqual(got, rows[c.from:min(c.from+2*c.calls, len(rows))]) {
			t.Errorf("%d: %v after %d batches: %+v", i, err, tried, got)
		}
	}
	wantSpilled(t, openSpill(t, dir, 64<<10), rows) // another process knows nothing of it
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(rows[:3]); err != nil {
		t.Fatal(err)
	}
	wantSpilled(t, s, rows[:3])
}

// TestSpillAfterACrash: the file is cut or changed at every byte of its last
// record; what was durable before it is read, and nothing that was not written.
func TestSpillAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 4<<10)
	rows := spilled(2)
	if err := s.Append(rows[:1]); err != nil {
		t.Fatal(err)
	}
	before := s.end
	if err := s.Append(rows[1:]); err != nil {
		t.Fatal(err)
	}
	after := s.end
	s.Close()
	whole, err := os.ReadFile(filepath.Join(dir, SpillName))
	if err != nil {
		t.Fatal(err)
	}
	for at := before; at < after; at += 7 {
		torn := append([]byte(nil), whole...)
		for i := at; i < after; i++ {
			torn[i] = 0
		}
		image := t.TempDir()
		if err := os.WriteFile(filepath.Join(image, SpillName), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		wantSpilled(t, openSpill(t, image, 4<<10), rows[:1])
	}
	for _, unused := range [][]byte{nil, make([]byte, 7), make([]byte, 9000)} { // before its first use
		image := t.TempDir()
		if err := os.WriteFile(filepath.Join(image, SpillName), unused, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openSpill(t, image, 4<<10)
		wantSpilled(t, s, nil)
		if err := s.Append(rows); err != nil {
			t.Fatal(err)
		}
		wantSpilled(t, s, rows)
	}
}

// TestSpillDamagedHeader: rows that cannot be found any more are not
// overwritten; the file stays as it is, for people to look at.
func TestSpillDamagedHeader(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 4<<10)
	if err := s.Append(spilled(2)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	path := filepath.Join(dir, SpillName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped, zeroed := slices.Clone(whole), slices.Clone(whole)
	flipped[3] ^= 4
	clear(zeroed[:spillHeader])
	newer := append([]byte("corenode spill 2"), whole[len(spillMagic):]...)
	foreign := []byte("something else that is long enough")
	for _, damaged := range [][]byte{flipped, zeroed, newer, foreign, whole[:8], whole[:len(spillMagic)], whole[:spillHeader-1]} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenSpill(dir, 8<<10); err == nil {
			t.Errorf("%.20q: opened, with %d rows", damaged, s.Rows())
			s.Close()
		}
		if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, damaged) {
			t.Errorf("%.20q: the file was changed: %.20q, %v", damaged, is, err)
		}
	}
}

// TestSpillFlippedEpoch: a bit of the epoch that flips is found by the rows, whichever it is, and said as damage; no row is lost, now
// and later. Without rows it is nothing.
func TestSpillFlippedEpoch(t *testing.T) {
	dir, rows := t.TempDir(), spilled(4)
	path := filepath.Join(dir, SpillName)
	s := openSpill(t, dir, 8<<10)
	empty, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Append(rows[:2]), s.Append(rows[2:3]), s.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(text []byte, bit int) *Spill {
		text = slices.Clone(text)
		text[len(spillMagic)+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return openSpill(t, dir, 8<<10)
	}
	for bit := range 64 {
		s := flipped(whole, bit)
		wantSpilled(t, s, rows[:3])
		if d := s.Damaged(); len(d) != 1 || d[0].At != int64(len(spillMagic)) || len(d[0].Bytes) != 8 {
			t.Errorf("bit %d: damaged %+v", bit, d)
		}
		if err := errors.Join(s.Append(rows[3:]), s.Close()); err != nil {
			t.Fatal(err)
		}
		if n, err := SpilledRows(dir); n != 4 || err != nil {
			t.Errorf("bit %d: later %d rows, %v", bit, n, err)
		}
	}
	s = flipped(empty, 9)
	if wantSpilled(t, s, nil); len(s.Damaged()) > 0 {
		t.Errorf("an empty journal: damaged %+v", s.Damaged())
	}
}

// TestSpillDamagedRecord: of a journal with a damaged record an open finds all
// others, and says what is between them.
func TestSpillDamagedRecord(t *testing.T) {
	const length, sum, payload = 0, 4, spillRecordHead
	rows := spilled(6)
	record := func(bad int) (whole []byte, from, to int64) {
		dir := t.TempDir()
		s := openSpill(t, dir, 64<<10)
		for i := range rows[:5] {
			if i == bad {
				from = s.end
			}
			if err := s.Append(rows[i : i+1]); err != nil {
				t.Fatal(err)
			}
			if i == bad {
				to = s.end
			}
		}
		whole, err := os.ReadFile(filepath.Join(dir, SpillName))
		if err != nil {
			t.Fatal(err)
		}
		return whole, from, to
	}
	for _, bad := range []int{0, 2, 3} {
		for how, damage := range map[string]func([]byte){
			"a longer length":  func(b []byte) { b[length+1] ^= 0x40 },
			"a shorter length": func(b []byte) { b[length] -= 5 },
			"no length":        func(b []byte) { clear(b[length:sum]) },
			"another checksum": func(b []byte) { b[sum] ^= 1 },
			"another payload":  func(b []byte) { b[payload+9] ^= 1 },
			"zeros":            func(b []byte) { clear(b) },
			"a length too far": func(b []byte) { b[length+3] = 0xff },
		} {
			whole, from, to := record(bad)
			damage(whole[from:to])
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, SpillName), whole, 0o600); err != nil {
				t.Fatal(err)
			}
			s := openSpill(t, dir, 64<<10)
			good := slices.Delete(slices.Clone(rows[:5]), bad, bad+1)
			wantSpilled(t, s, good)
			if d := s.Damaged(); len(d) != 1 || d[0].At != from || !bytes.Equal(d[0].Bytes, whole[from:to]) {
				t.Errorf("row %d, %s: damaged %+v, want bytes %d to %d", bad, how, d, from, to)
			}
			if err := s.Append(rows[5:]); err != nil {
				t.Fatal(err)
			}
			wantSpilled(t, s, append(good, rows[5]))
			if err := s.Reset(); err != nil {
				t.Fatal(err)
			}
			if s.Close(); len(s.Damaged()) != 0 {
				t.Error("damage is left behind a reset")
			}
			s = openSpill(t, dir, 64<<10)
			if wantSpilled(t, s, nil); len(s.Damaged()) != 0 {
				t.Errorf("damage is found behind a reset: %+v", s.Damaged())
			}
		}
	}
}

// TestSpillBadRead: a read that fails, or finds a record changed, is an error;
// the rows stay where they are, and rows that come later go behind them.
func TestSpillBadRead(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 64<<10)
	rows := spilled(5)
	if err := s.Append(rows[:2]); err != nil {
		t.Fatal(err)
	}
	bad := s.end + spillRecordHead // the third row begins here
	if err := s.Append(rows[2:4]); err != nil {
		t.Fatal(err)
	}
	wantUnread := func(how string) {
		t.Helper()
		if got, err := rowsOf(s); err == nil {
			t.Errorf("%s: %d rows were read, without an error", how, len(got))
		}
	}
	file := s.file
	unreadable, err := os.OpenFile(filepath.Join(dir, SpillName), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unreadable.Close()
	s.file = unreadable
	wantUnread("a failing disk")
	s.file = file
	var good [1]byte
	if _, err := file.ReadAt(good[:], bad); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{good[0] ^ 4}, bad); err != nil {
		t.Fatal(err)
	}
	wantUnread("a flipped bit")
	if err := s.Append(rows[4:]); err != nil {
		t.Fatal(err)
	}
	wantUnread("a flipped bit, and another row")
	if _, err := file.WriteAt(good[:], bad); err != nil {
		t.Fatal(err)
	}
	wantSpilled(t, s, rows)
	s.Close()
	wantSpilled(t, openSpill(t, dir, 64<<10), rows)
}

// TestSpillFailedWrites: rows whose write failed behind the bytes do not count,
// and rows after a reset that failed are found by the next open.
func TestSpillFailedWrites(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 64<<10)
	rows := spilled(3)
	if err := s.Append(rows[:2]); err != nil {
		t.Fatal(err)
	}
	end, n := s.end, s.rows
	if err := s.Append(rows[2:]); err != nil {
		t.Fatal(err)
	}
	s.end, s.rows = end, n // as a sync that fails leaves them
	wantSpilled(t, s, rows[:2])

	file := s.file
	readOnly, err := os.Open(filepath.Join(dir, SpillName))
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	s.file = readOnly
	if err := s.Reset(); err == nil {
		t.Fatal("a reset of a file that cannot be written")
	}
	s.file = file
	if err := s.Append(rows[2:]); err != nil {
		t.Fatal(err)
	}
	wantSpilled(t, s, rows[2:])
	s.Close()
	wantSpilled(t, openSpill(t, dir, 64<<10), rows[2:])
}

// TestSpillFailedWriteStaysForgotten: rows that a failed write left behind the
// end are not found by the next open, as rows or as damage: they were refused,
// or are tried again.
func TestSpillFailedWriteStaysForgotten(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 64<<10)
	rows := spilled(6)
	if err := s.Append(rows[:1]); err != nil {
		t.Fatal(err)
	}
	end, n := s.end, s.rows
	if err := s.Append(rows[1:5]); err != nil {
		t.Fatal(err)
	}
	s.end, s.rows = end, n // as a sync that fails leaves them
	want := rows[:1]
	for _, later := range [][]account.Entry{rows[1:2], rows[5:]} {
		if err := s.Append(later); err != nil {
			t.Fatal(err)
		}
		want = append(slices.Clone(want), later...)
		wantSpilled(t, s, want)
		image := t.TempDir() // of a kill here
		if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		next := openSpill(t, image, 64<<10)
		wantSpilled(t, next, want)
		if d := next.Damaged(); len(d) != 0 {
			t.Errorf("%d damages are told: %.40q", len(d), d[0].Bytes)
		}
	}
}

// TestSpillManyDamages: what is kept of each is its bytes, not all that was read
// to find the end of it.
func TestSpillManyDamages(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, dir, 2*spillDamageMax)
	rows := spilled(9)
	if err := s.Append(rows); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, SpillName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(rows); i += 2 {
		text[bytes.Index(text, []byte(`"RequestID":"`+rows[i].RequestID))] = '.'
	}
	s.Close()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	kept, said := 0, 0
	for _, d := range openSpill(t, dir, 2*spillDamageMax).Damaged() {
		kept, said = kept+cap(d.Bytes), said+len(d.Bytes)
	}
	if said == 0 || kept > 2*said {
		t.Errorf("%d bytes are kept for damages of %d", kept, said)
	}
}
