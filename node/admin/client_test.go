package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/node/operators"
	"corenode/node/store"
)

func TestAnnounce(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) {
		t.Errorf("empty folder: %v", err)
	}
	withdraw, err := Announce(dir, "127.0.0.1:1", operators.NewToken(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{addressFile, TokenName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) {
		t.Errorf("nobody listens there: %v", err)
	}
	withdraw()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestKilledNodeGetsNoToken: whoever has the port of a node that was killed is asked nothing, before the
// next one has the folder and before that says where it listens.
func TestKilledNodeGetsNoToken(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	dir := t.TempDir()
	announce := func() {
		t.Helper()
		if _, err := Announce(dir, strings.TrimPrefix(server.URL, "http://"), operators.NewToken(), ""); err != nil {
			t.Fatal(err)
		}
	}
	announce()
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) || asked.Load() > 0 {
		t.Errorf("nobody has the folder: %v, asked %d times", err, asked.Load())
	}
	if _, err := os.Stat(filepath.Join(dir, store.LockName)); err == nil {
		t.Error("looking whether a node runs makes a lock")
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) || asked.Load() > 0 {
		t.Errorf("the next one starts: %v, asked %d times", err, asked.Load())
	}
	announce()
	if _, err := Dial(dir); err != nil || asked.Load() != 1 {
		t.Errorf("the next one runs: %v, asked %d times", err, asked.Load())
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) || asked.Load() != 1 {
		t.Errorf("it was killed too: %v, asked %d times", err, asked.Load())
	}
}

// TestAPIOf: where the API is is known of the node that has the folder, and of nobody else.
func TestAPIOf(t *testing.T) {
	dir := t.TempDir()
	const base = "https://127.0.0.1:81"
	asked := func(when, want string) {
		t.Helper()
		if got, err := APIOf(dir); got != want || (want == "") != errors.Is(err, ErrNoNode) {
			t.Errorf("%s: %q, %v; want %q", when, got, err, want)
		}
	}
	asked("no node ever was there", "")
	if _, err := AnnounceAPI(dir, base); err != nil {
		t.Fatal(err)
	}
	asked("it was killed", "")
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	asked("the next one starts", "")
	withdraw, err := AnnounceAPI(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	asked("it runs", base)
	withdraw()
	asked("it stops", "")
}

// TestNoEndOfLongCalls: what reads all of the ledger takes as long as that has rows. Other calls have their time.
func TestNoEndOfLongCalls(t *testing.T) {
	over := make(chan struct{}) // the time of the other calls
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	c := remote(server.URL, operators.NewToken(), nil, time.Millisecond)
	var calls sync.WaitGroup
	for name, call := range map[string]func() error{
		"a proof":  func() error { _, err := c.VerifyLedger(); return err },
		"a backup": func() error { _, err := c.Backup("/b"); return err },
		"a rating": func() error { _, err := c.Rerate(); return err },
	} {
		calls.Go(func() {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if _, err := c.Status(); err == nil || !os.IsTimeout(err) {
		t.Errorf("a call that takes no time: %v, want that its time is over", err)
	}
	close(over)
	calls.Wait()
}

// TestAnnounceAllAddresses: a node that listens everywhere is found on loopback.
func TestAnnounceAllAddresses(t *testing.T) {
	for listens, want := range map[string]string{"0.0.0.0:81": "127.0.0.1:81", "[::]:81": "127.0.0.1:81",
		"10.1.2.3:81": "10.1.2.3:81", "[::1]:81": "[::1]:81", "127.0.0.1:81": "127.0.0.1:81"} {
		dir := t.TempDir()
		if _, err := Announce(dir, listens, operators.NewToken(), ""); err != nil {
			t.Fatal(err)
		}
		if got, err := readLine(dir, addressFile); err != nil || got != want {
			t.Errorf("%s is announced as %q, want %q (%v)", listens, got, want, err)
		}
	}
}

func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	made, err := ReadToken(path)
	if again, err2 := ReadToken(path); err != nil || err2 != nil || again != made || len(made) < tokenMin {
		t.Errorf("%q, %v; again %q, %v", made, err, again, err2)
	}
	for _, text := range []string{"", "short\n", strings.Repeat("a", tokenMin-1) + "\n", strings.Repeat("a", 30) + " b"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadToken(path); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	shortest := strings.Repeat("a", tokenMin)
	if err := os.WriteFile(path, []byte(shortest+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := ReadToken(path); err != nil || token != shortest {
		t.Errorf("%q, %v, want the shortest that is taken", token, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(path); err == nil {
		t.Error("a file that others may read was taken")
	}
}
