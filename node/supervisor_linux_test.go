package main

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"corenode/node/config"
)

// TestSupervisor reads what a service manager is told: that the start wants time, ready, alive, reloading, ready again,
// stopping and for how long.
func TestSupervisor(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	from, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", "")
	next := func(want string) string {
		t.Helper()
		buf := make([]byte, 4096)
		for {
			_ = from.SetReadDeadline(time.Now().Add(time.Minute)) // the socket is open
			n, err := from.Read(buf)
			if err != nil {
				t.Fatalf("while %s was due: %v", want, err)
			}
			if got := string(buf[:n]); strings.HasPrefix(got, want) {
				return got
			} else if got != "WATCHDOG=1" && got != extension(extendBy) { // a slow start says more of these
				t.Fatalf("%q, want %s", got, want)
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "corenode.yaml")
	text := "listen: 127.0.0.1:0\ndata_dir: " + filepath.Join(dir, "data") + "\nlimits: {drain_delay: 1ms}\nmodules:\n  cache_dir: " + moduleCache + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(config.Sources{File: file}, io.Discard, io.Discard) }()
	next("EXTEND_TIMEOUT_USEC=60000000")
	next("READY=1")
	next("WATCHDOG=1")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := next("RELOADING=1"); !strings.Contains(got, "\nMONOTONIC_USEC=") {
		t.Errorf("%q", got)
	}
	next("READY=1")
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := next("STOPPING=1"); got != "STOPPING=1\nEXTEND_TIMEOUT_USEC=90001000" { // limits.drain_delay and drain_timeout, and what closing takes
		t.Errorf("%q", got)
	}
	// From here on nobody reads: signs of life, of which it gives one each 10 ms until it has drained, do not hold it up.
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLongStartAsksForTime: a start asks again and again, and not once it is over.
func TestLongStartAsksForTime(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	from, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	manager, err := findSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	defer manager.close()
	buf := make([]byte, 4096)
	read := func() string {
		n, err := from.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	done := manager.extend(time.Millisecond)
	for range 3 {
		if got := read(); got != "EXTEND_TIMEOUT_USEC=60000000" {
			t.Errorf("%q", got)
		}
	}
	ended := make(chan struct{})
	go func() {
		done()
		manager.say("READY=1")
		manager.say("WATCHDOG=1")
		close(ended)
	}()
	for read() != "READY=1" { // what it asked for before
	}
	if got := read(); got != "WATCHDOG=1" {
		t.Errorf("after the start %q", got)
	}
	<-ended
}

// TestSupervisorHangs: a node that hangs gives no sign of life.
func TestSupervisorHangs(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	there.Close()
	hung, done := make(chan struct{}), make(chan struct{})
	asked := make(chan struct{}, 1)
	go func() {
		defer close(done)
		supervisor{watchdog: 3 * time.Millisecond}.live(func() { asked <- struct{}{}; <-hung }, hung)
	}()
	<-asked
	select {
	case <-done:
		t.Error("it went on while the node hung")
	default:
	}
	close(hung)
	<-done
}

// TestUnit: the unit file is what systemd takes.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze is installed: the unit file is not looked at by systemd")
	}
	text, err := os.ReadFile("deploy/corenode.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // stands for the installed program, which systemd looks for
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "corenode.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "/usr/bin/corenode", self)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "corenode.service") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestUnitSparesTheNode: what happens to a process that compiles a module ends no node, and what ends the node no such process.
func TestUnitSparesTheNode(t *testing.T) {
	unit, err := os.ReadFile("deploy/corenode.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"OOMPolicy=continue", "KillMode=mixed"} {
		if !strings.Contains(string(unit), "\n"+want+"\n") {
			t.Errorf("the unit does not say %s", want)
		}
	}
}

// TestUnitSaysWhatAGPUNeeds: the unit and the page name every option of the unit that keeps a GPU from the service.
func TestUnitSaysWhatAGPUNeeds(t *testing.T) {
	unit, err := os.ReadFile("deploy/corenode.service")
	page, errPage := os.ReadFile("OPERATING.md")
	if err := errors.Join(err, errPage); err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## A GPU\n")
	section, _, _ = strings.Cut(section, "\n## ")
	set := 0
	for _, option := range []string{"PrivateDevices", "ProtectClock", "DevicePolicy", "DeviceAllow"} {
		if !strings.Contains(string(unit), "\n"+option+"=") {
			continue
		}
		set++
		if want := option + "=no"; !strings.Contains(string(unit), want) || !strings.Contains(section, want) {
			t.Errorf("unit or page do not say %s", want)
		}
	}
	if set == 0 {
		t.Error("the unit sets none of these: the test sees nothing")
	}
}
