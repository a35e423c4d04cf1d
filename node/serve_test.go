package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
)

// instantConfig writes the configuration of a child with one model that answers
// at once; more is of that model.
func instantConfig(t *testing.T, data, more string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "corenode.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %q\nmodules: {cache_dir: %q}\nledger: {spill_bytes: 1MiB}\nmodels:\n  %s: {engine: instant%s}\n",
		data, moduleCache, fastModel, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(childVariable, "1")
	return file
}

// TestTokenFileInTheDataFolderSurvivesAStop: admin.token_file may lead to the file in which the commands
// look for the token, by any path. The copy of a token from elsewhere goes.
func TestTokenFileInTheDataFolderSurvivesAStop(t *testing.T) {
	dir := t.TempDir()
	data, link := filepath.Join(dir, "data"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Symlink(data, link)); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var log bytes.Buffer
	n := &node{cfg: config.Default(), admin: listener, public: listener, log: slog.New(slog.NewTextHandler(&log, nil))}
	n.cfg.DataDir = data
	life := func(tokenFile string) string {
		n.cfg.Admin.TokenFile = tokenFile
		if err := errors.Join(n.findToken(), n.announce()); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(data, "admin.token")); strings.TrimSpace(string(text)) != n.token {
			t.Errorf("the commands find the token %q, want %q (%v)", text, n.token, err)
		}
		if text, err := os.ReadFile(filepath.Join(data, "api.addr")); strings.TrimSpace(string(text)) != "http://"+listener.Addr().String() {
			t.Errorf("health finds the API at %q, want %v (%v)", text, listener.Addr(), err)
		}
		n.close()
		return n.token
	}
	own := filepath.Join(link, "admin.token")
	first := life(own)
	if err := os.Chmod(own, 0o660); err != nil { // as fsGroup of Kubernetes does at each mount
		t.Fatal(err)
	}
	if second := life(own); second != first || !strings.Contains(log.String(), "private again") {
		t.Errorf("after a stop the token is %q, was %q; the log says %s", second, first, &log)
	}
	life(filepath.Join(dir, "elsewhere"))
	if left, err := os.ReadDir(data); len(left) != 0 {
		t.Errorf("behind a token from elsewhere %v is left (%v)", left, err)
	}
}

// TestAddressesAreLeftLast: a node that waits for the others of its database has not said where it is, since nobody would be answered
// there: it starts, and is alive.
func TestAddressesAreLeftLast(t *testing.T) {
	url, dir := postgrestest.URL(t), filepath.Join(t.TempDir(), "data")
	var look sync.Once
	// Before it has had a word with its database the start goes as far as it goes.
	n, _ := startAmong(t, url, func() {
		look.Do(func() {
			stacks := make([]byte, 1<<20)
			for end := time.Now().Add(time.Minute); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*database).await(")); {
				if time.Now().After(end) {
					t.Error("the start does not wait for the others")
					return
				}
				time.Sleep(time.Millisecond)
			}
			for _, name := range []string{"admin.addr", "api.addr"} {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
					t.Errorf("%s says %s", name, text)
				}
			}
			if err := typedTo(t.Context(), io.Discard, "health", "--live", "--data-dir", dir); err != nil {
				t.Errorf("a node that starts: %v", err)
			}
		})
	}, func(cfg *config.Config) { cfg.DataDir = dir })
	if _, err := admin.Dial(n.cfg.DataDir); err != nil {
		t.Errorf("once it serves: %v", err)
	}
}

// TestSignalWhileStarting: a node that is told to stop before it serves ends
// at once, and the next start finds nothing broken. The start hangs in reading a
// chat template that nobody writes.
func TestSignalWhileStarting(t *testing.T) {
	dir := t.TempDir()
	pipe, data := filepath.Join(dir, "template"), filepath.Join(dir, "data")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipe: %v", err)
	}
	file := instantConfig(t, data, fmt.Sprintf(", template: %q", pipe))
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		var said strings.Builder
		cmd := exec.Command(os.Args[0], "serve", "--config", file)
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		written, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the node reads it
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // fails only when it has ended
		if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "stopped while starting") || strings.Contains(said.String(), "is ready") {
			t.Errorf("%v: %v; it said:\n%s", signal, err, &said)
		}
		hung.Stop()
		written.Close()
	}
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", data, moduleCache
	instantModels(cfg)
	n, err := start(cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
}

// TestStartSaysWhatToDo: a start that finds its address or its folder taken says how to go on.
func TestStartSaysWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	fails := func(says string, change func(*config.Config)) {
		t.Helper()
		cfg := config.Default()
		cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", t.TempDir(), moduleCache
		instantModels(cfg)
		change(cfg)
		if n, err := start(cfg, io.Discard); err == nil {
			n.stop()
			t.Errorf("it starts, want %q", says)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	fails("set listen to another address", func(cfg *config.Config) { cfg.Listen = taken.Addr().String() })
	fails("set admin.listen to another address", func(cfg *config.Config) { cfg.Admin.Listen = taken.Addr().String() })
	fails("name another folder with --data-dir", func(cfg *config.Config) {
		lock, err := store.LockFolder(cfg.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lock.Close() })
	})
}

// TestNewFolderBesideTheOneOfTheUnit: a start does not leave the accounts behind in the folder that the unit names, whatever its rows
// are in, because the file names one that nobody used.
func TestNewFolderBesideTheOneOfTheUnit(t *testing.T) {
	for _, name := range []string{"corenode.db", "node.id"} {
		served, fresh := t.TempDir(), filepath.Join(t.TempDir(), "fresh")
		if err := os.WriteFile(filepath.Join(served, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte("listen: 192.0.2.1:1\ndata_dir: "+fresh+"\n"), 0o600); err != nil { // which no machine has
			t.Fatal(err)
		}
		from := config.Sources{File: file, Environment: []string{"CORENODE_DATA_DIR_DEFAULT=" + served}}
		err := serve(from, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), served) || !strings.Contains(err.Error(), fresh) {
			t.Errorf("%s: %v, want both folders", name, err)
		}
		if _, err := os.Lstat(fresh); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the new folder was made, %v", name, err)
		}
		alone := config.Sources{Environment: append(from.Environment, "CORENODE_LISTEN=192.0.2.1:1", "CORENODE_DATA_DIR="+fresh)}
		if err := serve(alone, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), served) {
			t.Errorf("%s, by the variable: %v", name, err)
		}
		from.Flags = map[string]string{"data_dir": fresh} // is a choice of this start
		if err := serve(from, io.Discard, io.Discard); err == nil || strings.Contains(err.Error(), served) {
			t.Errorf("%s, by the flag: %v", name, err)
		}
	}
}

// TestGreetingIsPasted: the line to paste finds the key in a folder of any name, and of a node on all addresses what it says is one
// to open.
func TestGreetingIsPasted(t *testing.T) {
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = ":0", filepath.Join(t.TempDir(), "d\u00e9 'x' $HOME \"y\""), moduleCache
	cfg.Admin.Listen = ":0"
	instantModels(cfg)
	n, err := start(cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	n.greet(&said)
	for name, path := range map[string]string{"base URL": "/readyz", "admin API": "/readyz", "console": ""} {
		_, after, _ := strings.Cut(said.String(), name)
		address := strings.TrimSuffix(strings.Fields(after)[0], ",")
		resp, err := http.Get(address + path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK || strings.Contains(address, "[::]") {
			t.Errorf("the %s is said to be at %s, which answers %d", name, address, resp.StatusCode)
		}
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	key, err := os.ReadFile(filepath.Join(cfg.DataDir, "default.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(said.String(), "Try it:")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `curl() { printf '%s\n' "$@"; }`+line).CombinedOutput()
	if want := "x-api-key: " + strings.TrimSpace(string(key)); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, want %q: %s", err, want, out)
	}
}

// TestLogReaderGone: a node goes on when nobody reads its log any more.
func TestLogReaderGone(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reads.Close()
	servesAndStops(t, writes)
}

// TestLogPipeIsFull: a node starts and ends where whoever reads its log stands still.
func TestLogPipeIsFull(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	if err := writes.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := writes.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a pipe that takes a MiB: %v", err)
	}
	servesAndStops(t, writes)
}

// servesAndStops starts a node that writes its log to a file, which is closed here, and ends it by a signal.
func servesAndStops(t *testing.T, lines *os.File) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "serve", "--config", instantConfig(t, filepath.Join(t.TempDir(), "data"), ""))
	cmd.Stderr = lines
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines.Close()
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		t.Errorf("it did not greet: %v", err)
	} else if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }() // ends with the process
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestADrainIsCleanWithoutTheLastUseOfKeys: what the database does not take then is a warning, as while the node runs.
// An error would be the status 1, and a service that starts again what has failed would start what was drained.
func TestADrainIsCleanWithoutTheLastUseOfKeys(t *testing.T) {
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", t.TempDir(), moduleCache
	instantModels(cfg)
	var lines bytes.Buffer
	writer := newLogWriter(&lines)
	n, err := start(cfg, writer)
	if err != nil {
		t.Fatal(err)
	}
	_, key := customerOf(t, n, account.Account{Name: "alice"}, 1e9)
	e := errand{key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
	if r := e.run(t, http.DefaultClient, "http://"+n.public.Addr().String(), moments{}); !r.told {
		t.Fatalf("%+v", r)
	}
	wantSound(t, n)
	if err := n.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.stop(); err != nil {
		t.Errorf("a clean drain ends with %v", err)
	}
	writer.Close()
	if !strings.Contains(lines.String(), `"level":"WARN","msg":"write the last use of keys`) {
		t.Errorf("the log:\n%s", &lines)
	}
}
