package store

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"corenode/node/store/powercut"
)

// recordSpill has what is done to the journal's file logged until done is called. fail is what a sync gives.
func recordSpill() (log *powercut.Log, fail *error, done func()) {
	log, fail = new(powercut.Log), new(error)
	writeAt = func(file *os.File, b []byte, at int64) (int, error) {
		log.Write(SpillName, b, at)
		return file.WriteAt(b, at)
	}
	truncate = func(file *os.File, size int64) error {
		log.Truncate(SpillName, size)
		return file.Truncate(size)
	}
	allocate = truncate
	syncFile = func(*os.File) error {
		if *fail == nil {
			log.Sync(SpillName)
		}
		return *fail
	}
	return log, fail, func() {
		writeAt, syncFile, truncate, allocate = (*os.File).WriteAt, (*os.File).Sync, (*os.File).Truncate, fallocate
	}
}

// toldRows is what the journal had said that it has once so many steps were done. Rows are named by their requests, a letter each.
type toldRows struct {
	steps  int
	rows   string // surely there
	unsure string // there may be some of these behind them
}

func (is toldRows) allows(rows string) bool {
	rest, ok := strings.CutPrefix(rows, is.rows)
	for _, row := range rest {
		ok = ok && strings.ContainsRune(is.unsure, row) && strings.Count(rest, string(row)) == 1
	}
	return ok
}

// spillLife makes some of each call, and gives what was done to the file and what was told.
func spillLife(t *testing.T) (*powercut.Log, []toldRows) {
	log, fail, done := recordSpill()
	defer done()
	dir, all, told := t.TempDir(), spilled(26), make([]toldRows, 1)
	s := openSpill(t, dir, 16<<10)
	last := func() *toldRows { return &told[len(told)-1] }
	add := func(from, to rune, failure error) {
		*fail = failure
		for row := from; row <= to; row++ {
			last().unsure += string(row)
		}
		if err := s.Append(all[from-'a' : to-'a'+1]); !errors.Is(err, failure) {
			t.Fatal(err)
		}
		if *fail = nil; failure == nil {
			told = append(told, toldRows{log.Len(), last().rows + last().unsure[strings.IndexRune(last().unsure, from):], ""})
		}
	}
	reset := func() {
		if err := s.Reset(); err != nil {
			t.Fatal(err)
		}
		told = append(told, toldRows{steps: log.Len()})
	}
	reopen := func(size int64) {
		s.Close()
		s = openSpill(t, dir, size)
	}
	away := errors.New("the disk is away")
	add('a', 'a', nil)
	add('b', 'e', nil)
	add('f', 'h', away)
	add('i', 'i', nil) // over the rows that failed
	reopen(16 << 10)
	add('j', 'k', nil)
	reset()
	add('l', 'm', nil) // over rows of before
	reset()
	reopen(12 << 10) // another size: the file is made anew
	add('n', 'n', away)
	reset()
	add('o', 'q', nil)
	return log, told
}

// TestSpillPowerCut: whenever the power is cut, and whatever of what was not synced the disk has, the journal opens with all rows that it
// had said are durable, with some of those that were being written, and with none from before a reset.
func TestSpillPowerCut(t *testing.T) {
	log, told := spillLife(t)
	images := 0
	log.Cuts(1<<40, func(c powercut.Cut) {
		images++
		at := 0
		for at+1 < len(told) && told[at+1].steps <= c.Steps {
			at++
		}
		rows, damaged, err := openedSpill(t, c.Files[SpillName])
		isReset := at+1 < len(told) && told[at+1].rows == "" && rows == ""
		if err != nil || !told[at].allows(rows) && !isReset || damaged > 0 && told[at].unsure == "" {
			t.Errorf("after step %d, with %s: rows %q, %d damages, %v; want %q and some of %q", c.Steps, c.How, rows, damaged, err,
				told[at].rows, told[at].unsure)
		}
	})
	t.Logf("%d steps, %d images", log.Len(), images)
}

// openedSpill opens a journal of some content, and says which rows it has. It takes another one, and has all at the next open.
func openedSpill(t *testing.T, content []byte) (rows string, damaged int, err error) {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, SpillName), content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSpill(dir, 16<<10)
	if err != nil {
		return "", 0, err
	}
	rows, damaged = spilledNames(t, s), len(s.Damaged())
	if err := errors.Join(s.Append(spilled(26)[25:]), s.Close()); err != nil {
		return rows, damaged, err
	}
	if s, err = OpenSpill(dir, 16<<10); err != nil {
		return rows, damaged, err
	}
	defer s.Close()
	if more := spilledNames(t, s); more != rows+"z" {
		t.Errorf("with a row behind %q it has %q", rows, more)
	}
	return rows, damaged, nil
}

// spilledNames names the rows of a journal, which are whole.
func spilledNames(t *testing.T, s *Spill) (names string) {
	rows, err := rowsOf(s)
	if err != nil {
		t.Error(err)
	}
	for _, e := range rows {
		if want := spilled(26)[e.RequestID[0]-'a']; !reflect.DeepEqual(e, want) {
			t.Errorf("a row has changed: %+v, want %+v", e, want)
		}
		names += e.RequestID
	}
	return names
}
