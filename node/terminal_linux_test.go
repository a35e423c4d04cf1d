package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal: what a user sees and types at, and what a
// program has as its standard input.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	raw, err := user.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || failed != nil {
		t.Skipf("no terminal: %v, %v", err, failed)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// TestBarOnATerminal: the program itself shows how far it is where a person looks.
func TestBarOnATerminal(t *testing.T) {
	user, program := openTerminal(t)
	t.Setenv(childVariable, "1")
	cmd := exec.Command(os.Args[0], "model", "verify", "../engine/model/testdata/parity/tiny-qwen3-f16.gguf")
	cmd.Stderr = program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	shown, _ := io.ReadAll(user) // an error is how a terminal says that nobody has it any more
	if err := cmd.Wait(); err != nil || !strings.Contains(string(shown), "#] 100 %") {
		t.Errorf("%v; it showed %q", err, shown)
	}
}

// TestHangupOnATerminal: a node whose standard input is a terminal drains when
// it hangs up, by a signal or because the window is closed, during the start too.
func TestHangupOnATerminal(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // what nohup ignores a child would ignore too
	defer signal.Stop(hangups)
	for _, c := range []struct {
		name             string
		closed, starting bool
	}{{"signal", false, false}, {"closed", true, false}, {"signal while starting", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			dir, more := t.TempDir(), ""
			pipe := filepath.Join(dir, "template")
			if c.starting {
				if err := syscall.Mkfifo(pipe, 0o600); err != nil {
					t.Skipf("no named pipe: %v", err)
				}
				more = fmt.Sprintf(", template: %q", pipe)
			}
			user, program := openTerminal(t)
			cmd := exec.Command(os.Args[0], "serve", "--config", instantConfig(t, filepath.Join(dir, "data"), more))
			var said strings.Builder
			cmd.Stdin, cmd.Stderr = program, &said
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0} // as a login has it
			greeting, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			program.Close()
			if c.starting {
				written, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the node reads it
				if err != nil {
					t.Fatal(err)
				}
				defer written.Close()
			} else if _, err := greeting.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if c.closed {
				user.Close()
			} else if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // fails only when it has ended
			defer hung.Stop()
			_, _ = io.Copy(io.Discard, greeting) // ends with the process
			want := `"draining"`
			if c.starting {
				want = `"stopped while starting"`
			}
			if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), want) || !strings.Contains(said.String(), `"hangup"`) {
				t.Errorf("%v; it said:\n%s", err, &said)
			}
		})
	}
}
