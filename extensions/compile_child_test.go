package extensions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/logtest"
)

// compilerVariable in the environment makes the test program a process that
// compiles one module, as what it says, and compilersVariable names the file to
// which each of them adds its process id.
const compilerVariable, compilersVariable = "CORENODE_TEST_COMPILER", "CORENODE_TEST_COMPILERS"

func TestMain(m *testing.M) {
	as := os.Getenv(compilerVariable)
	if as == "" {
		os.Exit(m.Run())
	}
	f, err := os.OpenFile(os.Getenv(compilersVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	switch {
	case err != nil:
	case as == "compiles":
		err = guest.CompileModule(os.Stdin, os.Args[len(os.Args)-1], os.Stdout)
	case as == "is told to end":
		err = guest.CompileModule(toldToEnd{}, os.Args[len(os.Args)-1], os.Stdout)
	case as == "refuses":
		_, err = os.Stdout.WriteString("too baroque")
	case as == "hangs":
		time.Sleep(time.Hour)
	case as == "is killed", as == "is killed at first" && isFirst(f.Name()):
		if err = signalItself(os.Kill); err == nil {
			time.Sleep(time.Hour)
		}
	case as == "is killed at first":
		err = guest.CompileModule(os.Stdin, os.Args[len(os.Args)-1], os.Stdout)
	case as == "fails":
		err = errors.New("out of order")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// isFirst says whether only one process has added itself to a file.
func isFirst(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && len(strings.Fields(string(text))) == 1
}

// signalItself sends a signal to this process.
func signalItself(s os.Signal) error {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return p.Signal(s)
}

// toldToEnd is the standard input of a process that a service manager and a terminal tell to end while it reads.
type toldToEnd struct{}

func (toldToEnd) Read(b []byte) (int, error) {
	if err := errors.Join(signalItself(syscall.SIGTERM), signalItself(os.Interrupt)); err != nil {
		return 0, err
	}
	return os.Stdin.Read(b)
}

// compilers makes this test program the compiling process of hosts. started are
// those that were started so far.
func compilers(t testing.TB, as string) (command []string, started func() []int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "compilers")
	t.Setenv(compilerVariable, as)
	t.Setenv(compilersVariable, file)
	return []string{program, "compile"}, func() (all []int) {
		text, _ := os.ReadFile(file) // not there before the first
		for _, line := range strings.Fields(string(text)) {
			if id, err := strconv.Atoi(line); err == nil {
				all = append(all, id)
			}
		}
		return all
	}
}

func TestCompilesInAnotherProcess(t *testing.T) {
	command, started := compilers(t, "compiles")
	o := Options{CacheDir: t.TempDir(), CompileCommand: command}
	module := newGuest(SlotChat, "1").bytes(t)
	for _, when := range []string{"first", "from the cache"} {
		h, l := openTest(t, o)
		if _, err := h.Load(t.Context(), module, nil, nil); err != nil {
			t.Fatal(err)
		}
		if all := started(); len(all) != 1 || all[0] == os.Getpid() {
			t.Errorf("%s: compiled by the processes %d; want one, and not %d", when, all, os.Getpid())
		}
		if strings.Contains(l.String(), "compiles modules itself") {
			t.Errorf("%s: %s", when, l)
		}
	}
	folders, err := filepath.Glob(filepath.Join(o.CacheDir, "*", "SUM"))
	if err != nil || len(folders) != 1 {
		t.Errorf("%v, %v: want one folder with a sum", folders, err)
	}
	if err := os.WriteFile(folders[0], []byte("another sum"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, _ := openTest(t, o)
	if _, err := h.Load(t.Context(), module, nil, nil); err != nil || len(started()) != 2 {
		t.Errorf("damaged: %v, processes %d; want it compiled again", err, started())
	}
}

// TestCompilesToTheEnd: a signal for the node and all that it started ends no process that compiles, with which the node can
// end itself once it has drained.
func TestCompilesToTheEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process is told to end there")
	}
	command, started := compilers(t, "is told to end")
	h, l := openTest(t, Options{CacheDir: t.TempDir(), CompileCommand: command})
	if _, err := h.Load(t.Context(), newGuest(SlotChat, "1").bytes(t), nil, nil); err != nil || len(started()) != 1 {
		t.Errorf("%v, processes %d", err, started())
	}
	if strings.Contains(l.String(), "compiles modules itself") {
		t.Error(l)
	}
}

// TestCompilerKilled: what was too much for a process that compiles is not done in the node, which would end like it.
func TestCompilerKilled(t *testing.T) {
	command, started := compilers(t, "is killed")
	cache := t.TempDir()
	h, l := openTest(t, Options{CacheDir: cache, CompileCommand: command})
	_, err := h.Load(t.Context(), newGuest(SlotChat, "1").bytes(t), nil, nil)
	refused, ok := errors.AsType[*guest.LoadError](err)
	if !ok || refused.Stage != "compile" || !strings.Contains(refused.Reason, "killed") || len(started()) != 1 {
		t.Errorf("%v, processes %d", err, started())
	}
	if left, _ := os.ReadDir(cache); len(left) > 0 || strings.Contains(l.String(), "compiles modules itself") {
		t.Errorf("it was compiled: %v\n%s", left, l)
	}
}

// TestCompilesAgain: what should serve and did not come, since memory was short for a moment, comes by itself.
func TestCompilesAgain(t *testing.T) {
	wasm := newGuest(SlotAdmission, "1").bytes(t)
	ships, shipped := shipsChat(t)
	atStart := func(t *testing.T, o Options) (*Host, string) {
		h, _ := openTest(t, Options{Dir: o.Dir, CacheDir: t.TempDir()})
		digest := activate(t, h, wasm).Digest
		_ = h.Close()
		h, _ = openTest(t, o)
		return h, digest
	}
	nothing := func(*testing.T, *Host, string) error { return nil }
	for _, how := range []struct {
		name   string
		absent func(t *testing.T, o Options) (h *Host, digest string)
		then   func(t *testing.T, h *Host, digest string) error // in the pause
	}{
		{"at a start", atStart, nothing},
		{"at a start, and an operator loads it", atStart, func(t *testing.T, h *Host, _ string) error {
			_, err := h.Load(t.Context(), wasm, nil, nil)
			return err
		}},
		{"at a start, and an operator tries it", atStart, func(_ *testing.T, h *Host, digest string) error {
			_, err := h.Canary(digest, 10)
			return err
		}},
		{"which ships", func(t *testing.T, o Options) (*Host, string) {
			o.AllowUnsigned = true
			h, _ := openWith(t, o, ships)
			return h, shipped
		}, nothing},
		{"of a cluster", func(t *testing.T, o Options) (*Host, string) {
			r := &row{}
			a := r.join(t, t.TempDir())
			o.Keep = r.keep
			b, _ := openTest(t, o)
			digest := activate(t, a, wasm).Digest
			if err := b.Note(digest, wasm, nil, nil); err != nil {
				t.Fatal(err)
			}
			r.follow(t, b)
			return b, digest
		}, nothing},
		{"of a cluster, and brought", func(t *testing.T, o Options) (*Host, string) {
			r := &row{}
			activate(t, r.join(t, t.TempDir()), wasm)
			o.Keep, o.State, o.Number = r.keep, r.text, r.number
			h, _ := openTest(t, o)
			if err := h.Note(digestOf(wasm), wasm, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := h.Bring(wasm, nil, nil); !errors.Is(err, guest.ErrKilled) {
				t.Fatal(err)
			}
			return h, digestOf(wasm)
		}, nothing},
	} {
		t.Run(how.name, func(t *testing.T) {
			command, started := compilers(t, "is killed at first")
			synctest.Test(t, func(t *testing.T) {
				h, digest := how.absent(t, Options{Dir: t.TempDir(), CacheDir: t.TempDir(), CompileCommand: command})
				if got := stateOf(t, h, digest); got == StateActive || len(started()) != 1 {
					t.Fatalf("%s, processes %d", got, started())
				}
				if err := how.then(t, h, digest); err != nil {
					t.Fatal(err)
				}
				for began := time.Now(); stateOf(t, h, digest) != StateActive; time.Sleep(time.Second) {
					if time.Since(began) > time.Hour {
						t.Fatal("it does not come")
					}
				}
				if len(started()) != 2 || h.Missing(SlotAdmission) || h.Absent() != "" {
					t.Errorf("processes %d, absent %q", started(), h.Absent())
				}
			})
		})
	}
}

// shipsChat is what ships, with a module in the slot for chat.
func shipsChat(t *testing.T) (ships []shippedModule, digest string) {
	chat := newGuest(SlotChat, "1").bytes(t)
	digest = digestOf(chat)
	return append(testShipped(), shippedModule{slot: SlotChat, name: "other", digest: digest, nativeAs: "builtin:other",
		native: nativeChat("native"), wasm: func() ([]byte, error) { return chat, nil }}), digest
}

// TestCompilesWhatIsWanted: a module that ships is compiled again whatever serves in its slot, as a start brings it; what was taken
// out of service on another node meanwhile stays so.
func TestCompilesWhatIsWanted(t *testing.T) {
	ships, digest := shipsChat(t)
	for _, how := range []struct {
		name, state string
		comes       bool
	}{
		{"nothing is said", `{}`, true},
		{"it is chosen", `{"slots":{"chat":{"active":"shipped","previous":"native"}}}`, true},
		{"it is the one before", `{"slots":{"chat":{"active":"native","previous":"shipped"}}}`, true},
		{"it was taken out of service", fmt.Sprintf(`{"failed":{%q:"it failed"}}`, digest), false},
		{"the native build is chosen", `{"slots":{"chat":{"active":"native"}}}`, true},
		{"another one is chosen", fmt.Sprintf(`{"slots":{"chat":{"active":%q}}}`, digestOf([]byte("another"))), true},
	} {
		t.Run(how.name, func(t *testing.T) {
			command, started := compilers(t, "is killed at first")
			synctest.Test(t, func(t *testing.T) {
				r := &row{}
				h, _ := openWith(t, Options{AllowUnsigned: true, CacheDir: t.TempDir(), CompileCommand: command, Keep: r.keep}, ships)
				if err := h.Follow(1, []byte(how.state)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				got := stateOf(t, h, digest)
				if comes := got != StateFailed; comes != how.comes || len(started()) == 2 != how.comes {
					t.Errorf("%s, processes %d", got, started())
				}
				h.mu.Lock()
				_, failed := h.state.Failed[digest]
				h.mu.Unlock()
				if failed != strings.Contains(how.state, "failed") {
					t.Errorf("failed: %v", failed)
				}
				if err := h.Follow(2, []byte(`{"slots":{"chat":{"active":"shipped"}}}`)); err != nil || stateOf(t, h, digest) != StateActive {
					t.Errorf("chosen on another node: %s, %v", stateOf(t, h, digest), err)
				}
			})
		})
	}
}

// TestCompilesOnceWhatIsOnlyLoaded: a module that another node has loaded, and that serves nowhere, is not said to be compiled again.
func TestCompilesOnceWhatIsOnlyLoaded(t *testing.T) {
	wasm := newGuest(SlotAdmission, "1").bytes(t)
	command, started := compilers(t, "is killed at first")
	synctest.Test(t, func(t *testing.T) {
		r := &row{}
		h, l := openTest(t, Options{Dir: t.TempDir(), CacheDir: t.TempDir(), CompileCommand: command, Keep: r.keep})
		if err := h.Note(digestOf(wasm), wasm, nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Bring(wasm, nil, nil); !errors.Is(err, guest.ErrKilled) {
			t.Fatal(err)
		}
		if time.Sleep(time.Hour); len(started()) != 1 || strings.Contains(l.String(), "compiled again") {
			t.Errorf("processes %d\n%s", started(), l)
		}
		if err := h.Bring(wasm, nil, nil); err != nil { // as where a node is to make it serve
			t.Error(err)
		}
	})
}

// TestCompilesAgainWithPauses: memory that stays short is not asked for all the time, and a host that closes or a module that is not
// wanted any more ends it.
func TestCompilesAgainWithPauses(t *testing.T) {
	wasm := newGuest(SlotAdmission, "1").bytes(t)
	for _, how := range []struct {
		name string
		end  func(h *Host) error
	}{
		{"the host closes", (*Host).Close},
		{"an operator decides", func(h *Host) error { _, err := h.Rollback(SlotAdmission); return err }},
	} {
		t.Run(how.name, func(t *testing.T) {
			command, started := compilers(t, "is killed")
			synctest.Test(t, func(t *testing.T) {
				o := Options{Dir: t.TempDir(), CacheDir: t.TempDir()}
				h, _ := openTest(t, o)
				activate(t, h, wasm)
				_ = h.Close()
				o.CacheDir, o.CompileCommand = t.TempDir(), command
				h, _ = openTest(t, o)
				time.Sleep(time.Hour)
				n := len(started())
				if n < 10 || n > 20 {
					t.Errorf("processes %d", started())
				}
				if err := how.end(h); err != nil {
					t.Fatal(err)
				}
				if time.Sleep(time.Hour); len(started()) != n {
					t.Errorf("processes %d, want the %d before", started(), n)
				}
			})
		})
	}
}

// TestCompilingEnds: who waits for a compiling process need not, and the process ends.
func TestCompilingEnds(t *testing.T) {
	for _, how := range []struct {
		name string
		end  func(h *Host, leave func())
		want error
	}{
		{"the caller leaves", func(_ *Host, leave func()) { leave() }, context.Canceled},
		{"the host closes", func(h *Host, _ func()) { _ = h.Close() }, ErrClosed},
	} {
		t.Run(how.name, func(t *testing.T) {
			command, started := compilers(t, "hangs")
			h, l := openTest(t, Options{CacheDir: t.TempDir(), CompileCommand: command})
			module := newGuest(SlotChat, "1").bytes(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			loaded := make(chan error, 1)
			go func() {
				_, err := h.Load(ctx, module, nil, nil)
				loaded <- err
			}()
			for len(started()) == 0 {
				time.Sleep(time.Millisecond)
			}
			how.end(h, leave)
			select {
			case err := <-loaded:
				if !errors.Is(err, how.want) {
					t.Errorf("%v, want %v", err, how.want)
				}
			case <-time.After(time.Minute):
				t.Fatal("it goes on")
			}
			if p, err := os.FindProcess(started()[0]); err == nil && p.Signal(os.Interrupt) == nil {
				t.Error("the process goes on")
			}
			if strings.Contains(l.String(), "compiles modules itself") {
				t.Error(l)
			}
		})
	}
}

// TestCompilesItself: a host whose compiling process is of no use loads modules
// as one without, and says so once.
func TestCompilesItself(t *testing.T) {
	for _, how := range []struct{ name, as, program, says string }{
		{"it fails", "fails", "", "out of order"},
		{"it compiles nothing", "is idle", "", ""},
		{"there is none", "", "no-such-program", "no-such-program"},
	} {
		t.Run(how.name, func(t *testing.T) {
			command, _ := compilers(t, how.as)
			if how.program != "" {
				command[0] = filepath.Join(t.TempDir(), how.program)
			}
			h, l := openTest(t, Options{CacheDir: t.TempDir(), CompileCommand: command})
			for _, version := range []string{"1", "2"} {
				if _, err := h.Load(t.Context(), newGuest(SlotChat, version).bytes(t), nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			if n := strings.Count(l.String(), "compiles modules itself"); n != 1 || !strings.Contains(l.String(), how.says) {
				t.Errorf("%d lines, want one with %q:\n%s", n, how.says, l)
			}
		})
	}
}

// TestCompilesWithoutACache: a module whose code cannot be kept serves all the same, and why is said once.
func TestCompilesWithoutACache(t *testing.T) {
	for _, how := range []struct{ name, as string }{
		{"a process compiles", "compiles"},
		{"the node compiles", ""},
	} {
		t.Run(how.name, func(t *testing.T) {
			o := Options{Dir: t.TempDir(), CacheDir: filepath.Join(t.TempDir(), "cache")}
			if how.as != "" {
				o.CompileCommand, _ = compilers(t, how.as)
			}
			h, l := openTest(t, o)
			if err := errors.Join(os.Remove(o.CacheDir), os.WriteFile(o.CacheDir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			for _, version := range []string{"1", "2"} {
				if _, err := h.Load(t.Context(), newGuest(SlotChat, version).bytes(t), nil, nil); err != nil {
					t.Error(err)
				}
			}
			wantUnkept(t, l, "not a directory")
			if itself := strings.Contains(l.String(), "compiles modules itself"); itself != (how.as != "") {
				t.Errorf("compiled by the node: %t\n%s", itself, l)
			}
		})
	}
}

// wantUnkept wants one line of why compiled modules are not kept.
func wantUnkept(t *testing.T, l *logtest.Lines, why string) {
	t.Helper()
	lines := slices.DeleteFunc(strings.Split(l.String(), "\n"), func(line string) bool { return !strings.Contains(line, "cannot be kept") })
	if len(lines) != 1 || !strings.Contains(lines[0], why) {
		t.Errorf("want one line with %q:\n%s", why, l)
	}
}

// TestCompilerRefuses: what the engine has against a module is said in the same
// words, wherever it runs, and the module is not compiled twice.
func TestCompilerRefuses(t *testing.T) {
	command, started := compilers(t, "refuses")
	cache := t.TempDir()
	h, _ := openTest(t, Options{CacheDir: cache, CompileCommand: command})
	_, err := h.Load(t.Context(), newGuest(SlotChat, "1").bytes(t), nil, nil)
	refused, ok := errors.AsType[*guest.LoadError](err)
	if !ok || refused.Stage != "compile" || refused.Reason != "the engine does not take it: too baroque" || len(started()) != 1 {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(cache); len(left) > 0 {
		t.Errorf("it was compiled: %v", left)
	}
}

// TestShippedPoliciesAreKept: the file of a billing module that ships is kept for replays, however it came into memory and whatever lay
// in its place. It counts once it is there.
func TestShippedPoliciesAreKept(t *testing.T) {
	wasm := newGuest(SlotBilling, "1").bytes(t)
	for _, c := range []struct {
		name string
		lies func(path string) error // before
		late bool                    // it cannot be written until that has gone
	}{
		{"nothing", func(string) error { return nil }, false},
		{"itself", func(path string) error { return os.WriteFile(path, wasm, 0o600) }, false},
		{"a damaged file", func(path string) error { return os.WriteFile(path, wasm[:len(wasm)-1], 0o600) }, false},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }, true},
	} {
		t.Run(c.name, func(t *testing.T) { testShippedPolicyIsKept(t, wasm, c.lies, c.late) })
	}
}

func testShippedPolicyIsKept(t *testing.T, wasm []byte, lies func(path string) error, late bool) {
	digest := digestOf(wasm)
	ships := testShipped()
	at := slices.IndexFunc(ships, func(s shippedModule) bool { return s.slot == SlotBilling })
	ships[at].digest, ships[at].wasm = digest, func() ([]byte, error) { return wasm, nil }
	h, l := openWith(t, Options{Dir: t.TempDir(), AllowUnsigned: true, Denied: denials(t, digest)}, ships)
	<-h.ready
	kept := func(times int) {
		t.Helper()
		if n, err := h.KeepShipped(); n != times || (err == nil) != (times > 0) {
			t.Errorf("counted %d times, want %d; %v\n%s", n, times, err, l)
		}
	}
	path := h.folder.path(digest, extWasm)
	if err := lies(path); err != nil {
		t.Fatal(err)
	}
	h.Trust(nil, nil)
	if n, err := h.KeepShipped(); n != 0 || err != nil || stateOf(t, h, digest) == StateActive {
		t.Fatalf("it serves already; counted %d times, %v", n, err)
	}
	if err := h.Follow(1, []byte(`{"slots":{"billing":{"active":"native","previous":"shipped"}}}`)); err != nil {
		t.Fatal(err)
	}
	if late {
		kept(0)
		kept(0)
		if n := strings.Count(l.String(), "not kept for replays"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	kept(1)
	kept(1)
	if file, err := os.ReadFile(path); err != nil || !bytes.Equal(file, wasm) {
		t.Errorf("not kept: %v\n%s", err, l)
	}
}

// TestDeniedModulesThatShipAreNotFollowed: what another node has before the one that serves is not asked of a node that denies it.
func TestDeniedModulesThatShipAreNotFollowed(t *testing.T) {
	ships, digest := shipsChat(t)
	h, l := openWith(t, Options{AllowUnsigned: true, Denied: denials(t, digest)}, ships)
	if err := h.Follow(1, []byte(`{"slots":{"chat":{"active":"native","previous":"shipped"}}}`)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(l.String(), "the cluster wants") || stateOf(t, h, digest) != StateDenied {
		t.Errorf("%s, and the log says\n%s", stateOf(t, h, digest), l)
	}
}
