package sqlite

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/powercut"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// recordingSystem logs what is done to the files of one folder, but for the WAL's index: that is made anew after a power cut.
type recordingSystem struct {
	vfs.VFSFilename
	dir string
	log *powercut.Log
}

func (r recordingSystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, out, err := r.VFSFilename.OpenFilename(name, flags)
	if err == nil && name != nil && filepath.Dir(name.String()) == r.dir {
		made := flags&(vfs.OPEN_WAL|vfs.OPEN_MAIN_JOURNAL) != 0 && flags&vfs.OPEN_CREATE != 0
		file = &recordedFile{file, filepath.Base(name.String()), r.log, made}
	}
	return file, out, err
}

func (r recordingSystem) Delete(name string, syncDir bool) error {
	err := r.VFSFilename.Delete(name, syncDir)
	if err == nil && filepath.Dir(name) == r.dir {
		r.log.Remove(filepath.Base(name))
		if syncDir {
			r.log.SyncFolder()
		}
	}
	return err
}

type recordedFile struct {
	vfs.File
	name string
	log  *powercut.Log
	made bool // by SQLite: the driver's first sync of such a log syncs the folder, too
}

func (f *recordedFile) WriteAt(b []byte, off int64) (int, error) {
	f.log.Write(f.name, b, off)
	return f.File.WriteAt(b, off)
}

func (f *recordedFile) Truncate(size int64) error {
	f.log.Truncate(f.name, size)
	return f.File.Truncate(size)
}

func (f *recordedFile) Sync(vfs.SyncFlag) error {
	f.log.Sync(f.name)
	if f.made {
		f.log.SyncFolder()
		f.made = false
	}
	return nil
}

func (f *recordedFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

// lazySystem syncs nothing: what is opened of a power cut is looked at and removed.
type lazySystem struct{ vfs.VFSFilename }

func (l lazySystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, out, err := l.VFSFilename.OpenFilename(name, flags)
	if err == nil {
		file = lazyFile{file}
	}
	return file, out, err
}

type lazyFile struct{ vfs.File }

func (lazyFile) Sync(vfs.SyncFlag) error { return nil }

func (f lazyFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

// outages is a store whose files are recorded, and what it had said that it has.
type outages struct {
	t     *testing.T
	dir   string
	log   powercut.Log
	store *Store
	told  []told // in order
}

// told is what all tables have, once a call has returned.
type told struct {
	call  string
	steps int // that had been done to the files then
	state string
}

// state is all rows of all tables.
func state(s *Store) (text string, err error) {
	err = s.read.view(func() error {
		var tables, rows []string
		if err := s.read.each(`SELECT name FROM sqlite_schema WHERE type = 'table'`, func(r row) error {
			tables = append(tables, r.text(0))
			return nil
		}); err != nil {
			return err
		}
		for _, table := range tables {
			if err := s.read.each(`SELECT * FROM `+table, func(r row) error {
				line := table
				for i := range r.sql.ColumnCount() {
					line += fmt.Sprintf(" %.300q", r.text(i))
				}
				rows = append(rows, line)
				return nil
			}); err != nil {
				return err
			}
		}
		slices.Sort(rows)
		text = strings.Join(rows, "\n")
		return nil
	})
	return text, err
}

// open opens the store. From here on all is recorded that is done to its files, by whomever.
func (o *outages) open() {
	o.t.Helper()
	system = recordingSystem{vfs.Find("os").(vfs.VFSFilename), o.dir, &o.log}
	o.store = open(o.t, o.dir)
	o.tell("open")
}

// do makes one call of the store, which changes all or nothing.
func (o *outages) do(call string, change func(s *Store) error) {
	o.t.Helper()
	if err := change(o.store); err != nil {
		o.t.Fatal(call, err)
	}
	o.tell(call)
}

func (o *outages) tell(call string) {
	o.t.Helper()
	is, err := state(o.store)
	if err != nil {
		o.t.Fatal(call, err)
	}
	o.told = append(o.told, told{call, o.log.Len(), is})
}

// restart closes the store and opens it again.
func (o *outages) restart() {
	o.t.Helper()
	if err := o.store.Close(); err != nil {
		o.t.Fatal(err)
	}
	o.open()
}

// cut ends the record, and has the store opened on what a power cut may leave at each moment.
func (o *outages) cut(others int) {
	system = lazySystem{vfs.Find("os").(vfs.VFSFilename)}
	dir, images, seen := o.t.TempDir(), 0, map[[32]byte]string{}
	o.log.Cuts(others, func(c powercut.Cut) {
		key := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(c.Files)) {
			fmt.Fprintf(key, "%s %d ", name, len(c.Files[name]))
			key.Write(c.Files[name])
		}
		is, known := seen[[32]byte(key.Sum(nil))]
		if !known {
			images++
			var err error
			if is, err = opened(filepath.Join(dir, fmt.Sprint(images)), c.Files); err != nil {
				is = "error: " + err.Error()
			}
			seen[[32]byte(key.Sum(nil))] = is
		}
		last := -1 // a state that is surely there; of none the store may have no database yet
		for i, told := range o.told {
			if told.steps <= c.Steps {
				last = i
			}
		}
		next := min(last+1, len(o.told)-1)
		if is != o.told[next].state && (last < 0 || is != o.told[last].state) {
			o.t.Errorf("after step %d, in %q, with %s it has\n%s\nwant\n%s", c.Steps, o.told[next].call, c.How, is, o.told[next].state)
		}
	})
	o.t.Logf("%d steps, %d states, %d images", o.log.Len(), len(o.told), images)
}

// opened is the state of a store that is opened on files. It takes a row and is proved.
func opened(dir string, files powercut.Files) (is string, err error) {
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	s, err := Open(dir)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if is, err = state(s); err != nil {
		return "", err
	}
	if _, err := s.CreateAccount(account.Account{Name: "after"}, 7); err != nil {
		return "", err
	}
	v, err := s.Verify()
	if err == nil && len(v.Findings) > 0 {
		err = errors.New(strings.Join(v.Findings, "; "))
	}
	return is, err
}

// rows appends rows in one call.
func rows(entries ...account.Entry) func(*Store) error {
	return func(s *Store) error { return s.Append(slices.Clone(entries)) }
}

// refused is rows that leave nothing, since the last one is of no account.
func refused(entries ...account.Entry) func(*Store) error {
	return func(s *Store) error {
		if err := rows(append(entries, storetest.Hold("acct_nobody", "nobody", 1))...)(s); !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("a row of no account: %w", err)
		}
		return nil
	}
}

// large is a settlement with so many bytes of input.
func large(a, request string, size int) account.Entry {
	e := storetest.Settlement(a, request, -3)
	e.ChargeInput = []byte(strings.Repeat(request, size/len(request)))
	e.InputHash, e.ModuleDigest = fmt.Sprintf("%x", sha256.Sum256(e.ChargeInput)), "sha256:x"
	return e
}

func pragma(text string) func(*Store) error {
	return func(s *Store) error { return s.Exec("PRAGMA " + text) }
}

// TestPowerCut: whenever the power is cut, and whatever of what was not synced the disk has, the store opens with all that its calls had
// said, with all or nothing of the call that ran, and with nothing else.
func TestPowerCut(t *testing.T) {
	was := system
	defer func() { system = was }()
	others := 200
	if testing.Short() {
		others = 30
	}
	o := &outages{t: t, dir: t.TempDir()}
	o.open()
	o.live()
	// The next process finds the WAL of one that was killed.
	killed := &outages{t: t, dir: t.TempDir(), log: powercut.Log{Start: powercut.Files{}}}
	for _, name := range []string{DatabaseName, DatabaseName + "-wal"} {
		path := filepath.Join(killed.dir, name)
		copyFile(t, filepath.Join(o.dir, name), path)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		killed.log.Start[name] = content
	}
	killed.open()
	killed.told[0].steps = 0
	killed.do("a row", rows(storetest.Hold(o.account(), "behind", 4)))
	killed.do("a checkpoint", pragma("wal_checkpoint(TRUNCATE)"))
	killed.do("another row", rows(storetest.Settlement(o.account(), "behind", -4)))
	t.Run("a killed process's WAL", func(t *testing.T) {
		killed.t = t
		killed.cut(others / 4)
	})
	o.restart()
	o.do("a row after a restart", rows(storetest.Settlement(o.account(), "last", -1)))
	t.Run("a life", func(t *testing.T) {
		o.t = t
		o.cut(others)
	})
}

func (o *outages) account() string {
	a, err := o.store.Account("a")
	if err != nil {
		o.t.Fatal(err)
	}
	return a.ID
}

// live makes some of each call.
func (o *outages) live() {
	o.t.Helper()
	create := func(name string) func(*Store) error {
		return func(s *Store) error {
			_, err := s.CreateAccount(account.Account{Name: name}, 1_000_000)
			return err
		}
	}
	o.do("account a", create("a"))
	o.do("account b", create("b"))
	a := o.account()
	o.do("a key", func(s *Store) error {
		_, _, err := s.CreateKey(a, account.KeyLimits{}, time.Time{})
		return err
	})
	o.do("a hold", rows(storetest.Hold(a, "r1", 50)))
	o.do("a commit of many", rows(storetest.Hold(a, "r2", 60), storetest.Hold(a, "r3", 70), storetest.Checkpoint(a, "r1", 2), large(a, "r4", 9000)))
	o.do("a settlement", rows(storetest.Settlement(a, "r1", -30)))
	o.do("a free settlement", rows(storetest.Settlement(a, "r2", 0)))
	o.do("a refusal", refused(storetest.Settlement(a, "r3", -9)))
	o.do("a checkpoint", pragma("wal_checkpoint(PASSIVE)"))
	o.do("a WAL from its begin", rows(storetest.Hold(a, "r5", 5), storetest.Settlement(a, "r3", -11)))
	o.do("a refund", rows(storetest.RefundOf(a, "r3")))
	o.do("a top-up", func(s *Store) error {
		_, err := s.TopUp(a, 500, "invoice", "key")
		return err
	})
	o.do("prices", func(s *Store) error { return s.KeepPrices(map[string]abi.Prices{"m": {}}) })
	// Without a cache the pages of a transaction are written before its end, and those of one that is refused too.
	o.do("no cache", pragma("cache_size = 10"))
	o.do("many pages", rows(large(a, "r6", 90_000), large(a, "r7", 90_000)))
	o.do("many pages refused", refused(large(a, "r8", 90_000), large(a, "r9", 90_000)))
	o.second(a)
	o.do("many pages again", rows(large(a, "r10", 90_000), storetest.Hold(a, "r11", 1)))
	o.do("a checkpoint of all", pragma("wal_checkpoint(TRUNCATE)"))
	o.do("checkpoints often", pragma("wal_autocheckpoint = 8"))
	for i := range 4 {
		o.do("a small commit", rows(storetest.Hold(a, fmt.Sprint("small", i), 1), storetest.Settlement(a, fmt.Sprint("small", i), -1)))
	}
	o.do("a backup", func(s *Store) error {
		_, err := s.Backup(filepath.Join(o.t.TempDir(), "b.db"))
		return err
	})
	o.do("checkpoints seldom", pragma("wal_autocheckpoint = 4000"))
	o.do("the last of this process", rows(storetest.Hold(a, "last", 9)))
}

// second has another process write between the calls of the store, as an operator's shell does.
func (o *outages) second(a string) {
	o.t.Helper()
	other, err := dialWriter(filepath.Join(o.dir, DatabaseName))
	if err != nil {
		o.t.Fatal(err)
	}
	defer other.close()
	for i := range 2 {
		o.do("a checkpoint before", pragma("wal_checkpoint(TRUNCATE)"))
		o.do("a refusal before", refused(large(a, "refused", 60_000+50_000*i)))
		o.do("a second writer", func(*Store) error {
			return other.transaction(func() error {
				return other.append([]account.Entry{storetest.Hold(a, fmt.Sprint("second", i), 2), large(a, fmt.Sprint("of it", i), 150_000)})
			})
		})
		o.do("the first writer", rows(storetest.Settlement(a, fmt.Sprint("second", i), -2)))
	}
}
