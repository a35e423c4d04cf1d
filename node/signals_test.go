//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"corenode/node/admin"
)

// logLine is what these tests read of a line of the log.
type logLine struct {
	Level    string   `json:"level"`
	Msg      string   `json:"msg"`
	Changed  []string `json:"changed"`
	Waits    []string `json:"wait_for_restart"`
	Problems []string `json:"problems"`
	Text     string   `json:"text"`
}

// linesOf reads the whole lines of a log that is still written.
func linesOf(t *testing.T, text string) (lines []logLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l logLine
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("the log has %q: %v", line, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// awaitLine waits for the n-th line (from 1) with a message; go test ends a wait in vain.
func (c *childNode) awaitLine(msg string, n int) logLine {
	c.t.Helper()
	for {
		found := 0
		for _, l := range linesOf(c.t.(*testing.T), c.log()) {
			if l.Msg != msg {
				continue
			}
			if found++; found == n {
				return l
			}
		}
		if err := syscall.Kill(c.proc.PID(), 0); err != nil {
			c.t.Fatalf("the node is gone (%v) without %q; its log:\n%s", err, msg, c.log())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// signal sends a signal to the node.
func (c *childNode) signal(s syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(c.proc.PID(), s); err != nil {
		c.t.Fatal(err)
	}
}

// awaitEnd waits until the node has ended by itself, with status 0.
func (c *childNode) awaitEnd() {
	c.t.Helper()
	for {
		if err := c.proc.Alive(); err != nil {
			if !strings.Contains(err.Error(), "(exit status 0)") {
				c.t.Error(err)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// slowStream is an answer that goes on for as long as a client reads it.
type slowStream struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Reader
}

// beginStream begins a stream and returns when it has written something.
func beginStream(t *testing.T, base, key string) *slowStream {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":100000,"stream":true,"messages":[{"role":"user","content":"a long story"}]}`, slowModel)
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s := &slowStream{t, res.Body, bufio.NewReader(res.Body)}
	if res.StatusCode != http.StatusOK || !s.goesOn() {
		t.Fatalf("the stream began with %s", res.Status)
	}
	return s
}

// goesOn reads some events more.
func (s *slowStream) goesOn() bool {
	for range 20 {
		if line, err := s.lines.ReadString('\n'); err != nil || strings.Contains(line, "error") {
			s.t.Logf("%q, %v", line, err)
			return false
		}
	}
	return true
}

func (s *slowStream) close() { s.body.Close() }

const (
	saidReloaded    = "the configuration is read again"
	saidNotReloaded = "the configuration is not valid and stays as it was"
)

// TestHangupReloads: SIGHUP puts in force what can change in a running node,
// names what waits for a restart, and leaves all as it was when the file has
// mistakes. Requests that run meanwhile are not touched.
func TestHangupReloads(t *testing.T) {
	c := newChild(t, filepath.Join(t.TempDir(), "data"), "")
	c.start()
	_, key := c.account(admin.NewAccount{Name: "a", Unlimited: true})
	base, err := os.ReadFile(c.config)
	if err != nil {
		t.Fatal(err)
	}
	write := func(more string) {
		t.Helper()
		if err := os.WriteFile(c.config, []byte(strings.Replace(string(base), "limits: {", more+"\nlimits: {", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stream := beginStream(t, c.base, key)
	public, other := strings.Repeat("A", 43)+"=", strings.Repeat("B", 42)+"A="

	write("log: {level: debug}\nadmin: {listen: 127.0.0.1:1}") // a restart would bind another port
	c.signal(syscall.SIGHUP)
	l := c.awaitLine(saidReloaded, 1)
	if !slices.Equal(l.Changed, []string{"log.level"}) || !slices.Equal(l.Waits, []string{"admin.listen"}) {
		t.Errorf("changed %v, waits %v", l.Changed, l.Waits)
	}
	for !strings.Contains(c.log(), `"level":"DEBUG"`) { // probes are logged at debug, a moment later
		r, err := http.Get(c.base + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		time.Sleep(5 * time.Millisecond)
	}

	write("log: {level: loud}\nadmin: {listen: nowhere}\nlimits_: 1")
	c.signal(syscall.SIGHUP)
	l = c.awaitLine(saidNotReloaded, 1)
	if all := strings.Join(l.Problems, "\n"); len(l.Problems) != 3 || l.Level != "ERROR" ||
		!strings.Contains(all, "log.level") || !strings.Contains(all, "admin.listen") || !strings.Contains(all, "limits_") {
		t.Errorf("problems %q", l.Problems)
	}
	if err := os.Remove(c.config); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	if l = c.awaitLine(saidNotReloaded, 2); len(l.Problems) != 1 || !strings.Contains(l.Problems[0], "no such file") {
		t.Errorf("problems %q", l.Problems)
	}

	write("log: {level: error}\nmodules_: {}") // one mistake is enough for nothing to change
	c.signal(syscall.SIGHUP)
	c.awaitLine(saidNotReloaded, 3)
	text := strings.Replace(string(base), "modules: {", fmt.Sprintf("modules: {trusted_keys: [%q, %q], ", public, other), 1)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	l = c.awaitLine(saidReloaded, 2)
	if !slices.Equal(l.Changed, []string{"log.level", "modules.trusted_keys"}) || len(l.Waits) > 0 {
		t.Errorf("changed %v, waits %v", l.Changed, l.Waits)
	}
	if !stream.goesOn() {
		t.Error("the stream ended")
	}
	stream.close()
	c.signal(syscall.SIGTERM)
	c.awaitEnd()
}

// TestOtherSignals: signals that mean nothing here, and that of a file that
// reached the limit of its size, do not end the node, and a
// hangup is no second signal that kills it while it drains.
func TestOtherSignals(t *testing.T) {
	c := newChild(t, filepath.Join(t.TempDir(), "data"), "")
	c.start()
	_, key := c.account(admin.NewAccount{Name: "a", Unlimited: true})
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGXFSZ} {
		c.signal(s)
	}
	stream := beginStream(t, c.base, key)
	c.signal(syscall.SIGTERM)
	c.awaitLine("draining", 1)
	c.signal(syscall.SIGHUP)
	c.awaitLine(saidReloaded, 1)
	if !stream.goesOn() {
		t.Error("a hangup ended the drain")
	}
	stream.close()
	c.awaitEnd()
}

// TestFirstSignalOfAnAskedDrain: a service that is stopped while it drains gets its first signal then, and goes on. The second ends it.
func TestFirstSignalOfAnAskedDrain(t *testing.T) {
	c := newChild(t, filepath.Join(t.TempDir(), "data"), "")
	c.start()
	_, key := c.account(admin.NewAccount{Name: "a", Unlimited: true})
	stream := beginStream(t, c.base, key)
	defer stream.close()
	if _, err := c.admin.Drain(); err != nil {
		t.Fatal(err)
	}
	c.awaitLine("draining", 1)
	c.signal(syscall.SIGTERM)
	c.awaitLine("draining already", 1)
	if !stream.goesOn() {
		t.Error("the first signal ended the drain")
	}
	c.signal(syscall.SIGINT)
	c.awaitKilled()
}

// TestRepeatedSignal: a signal that comes once more at once is no second one; another one is, and so is the same later.
func TestRepeatedSignal(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	term := stopSignal{syscall.SIGTERM, at}
	for _, c := range []struct {
		first   stopSignal
		signal  os.Signal
		after   time.Duration
		repeats bool
	}{
		{term, syscall.SIGTERM, 0, true},
		{term, syscall.SIGTERM, 8 * time.Millisecond, true},
		{term, syscall.SIGTERM, repeatMax, false},
		{term, syscall.SIGTERM, time.Hour, false},
		{term, syscall.SIGINT, time.Millisecond, false},
		{stopSignal{syscall.SIGHUP, at}, syscall.SIGTERM, time.Millisecond, true}, // its session ended
		{stopSignal{syscall.SIGHUP, at}, syscall.SIGTERM, repeatMax, false},
		{stopSignal{syscall.SIGTERM, time.Time{}}, syscall.SIGTERM, 0, false}, // repeated before
		{stopSignal{}, syscall.SIGTERM, 0, false},
	} {
		if got := c.first.isRepeated(c.signal, at.Add(c.after)); got != c.repeats {
			t.Errorf("%v %v after %v: %t", c.signal, c.after, c.first.signal, got)
		}
	}
}

// awaitKilled waits until a second signal has ended the node.
func (c *childNode) awaitKilled() {
	c.t.Helper()
	err := c.proc.Alive()
	for ; err == nil; err = c.proc.Alive() {
		time.Sleep(5 * time.Millisecond)
	}
	if !strings.Contains(err.Error(), "(exit status 1)") || !strings.Contains(c.log(), `"killed while draining"`) {
		c.t.Errorf("after the second: %v; its log:\n%s", err, c.log())
	}
}

// TestDrainDelay: before it drains a node says that it is not ready, and serves. A second signal ends it then, too.
func TestDrainDelay(t *testing.T) {
	c := newChild(t, filepath.Join(t.TempDir(), "data"), "drain_delay: 23h, drain_timeout: 1h")
	c.start()
	_, key := c.account(admin.NewAccount{Name: "a", Unlimited: true})
	c.signal(syscall.SIGTERM)
	waitFor(t, "it to be not ready", func() bool {
		r, err := http.Get(c.base + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode == http.StatusServiceUnavailable
	})
	stream := beginStream(t, c.base, key)
	defer stream.close()
	s, err := c.admin.DrainState()
	if err != nil || !s.Draining || s.TimeoutMS != (24*time.Hour).Milliseconds() || s.Left() < 23*time.Hour {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := c.admin.Status(); err != nil || !s.Draining {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.admin.Drain(); err != nil {
		t.Error(err)
	}
	if !stream.goesOn() {
		t.Error("a drain that is asked for again ends streams")
	}
	c.signal(syscall.SIGINT)
	c.awaitKilled()
}

// TestHangupWhileStarting: a hangup during the start does not end it: the
// configuration is read again as soon as the node serves.
func TestHangupWhileStarting(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "template")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipe: %v", err)
	}
	file := instantConfig(t, filepath.Join(dir, "data"), fmt.Sprintf(", template: %q", pipe))
	said := filepath.Join(dir, "log")
	logTo, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer logTo.Close()
	cmd := exec.Command(os.Args[0], "serve", "--config", file)
	cmd.Stderr = logTo
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the node reads it
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, "log: {level: debug}\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await := func(msg string) logLine {
		t.Helper()
		for {
			text, err := os.ReadFile(said)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range linesOf(t, string(text)) {
				if l.Msg == msg {
					return l
				}
			}
			select {
			case err := <-ended:
				t.Fatalf("it ended with %v without %q:\n%s", err, msg, text)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	await("the configuration will be read again when the node serves")
	if _, err := written.WriteString("{% for m in messages %}{{ m.content }}{% endfor %}"); err != nil {
		t.Fatal(err)
	}
	written.Close()
	if l := await(saidReloaded); !slices.Equal(l.Changed, []string{"log.level"}) {
		t.Errorf("changed %v", l.Changed)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestLibrariesWriteLogLines: what a library says by itself is a line of the log like any other, such as what that of
// metrics says where no descriptor is left to read /proc with.
func TestLibrariesWriteLogLines(t *testing.T) {
	dir := t.TempDir()
	data, said := filepath.Join(dir, "data"), filepath.Join(dir, "log")
	lines, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -n 64 && exec "$0" "$@"`, os.Args[0], "serve", "--config", instantConfig(t, data, ""))
	cmd.Stderr = lines
	greeting, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Signal(syscall.SIGTERM), cmd.Wait() }()
	out := bufio.NewReader(greeting)
	public := ""
	for !strings.Contains(public, "base URL") {
		if public, err = out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	_, public, _ = strings.Cut(strings.TrimSpace(public), "http://")
	address, err := os.ReadFile(filepath.Join(data, "admin.addr"))
	if err != nil {
		t.Fatal(err)
	}
	scrape := dialUntilTheEnd(t, strings.TrimSpace(string(address)))
	answers := bufio.NewReader(scrape)
	look := func() {
		t.Helper()
		fmt.Fprint(scrape, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
		answer, err := http.ReadResponse(answers, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	look()          // it is accepted before the others take what there is
	for range 100 { // more than there are descriptors: the node takes each that becomes free
		dialUntilTheEnd(t, public)
	}
	logged := func() string {
		text, err := os.ReadFile(said)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for !strings.Contains(logged(), "connections cannot be accepted") {
		time.Sleep(5 * time.Millisecond)
	}
	for !strings.Contains(logged(), "/proc/self") { // a descriptor may be free for a moment
		look()
		time.Sleep(5 * time.Millisecond)
	}
	for _, l := range linesOf(t, logged()) {
		if l.Msg == "a library says" && l.Level == "WARN" && strings.Contains(l.Text, "/proc/self") {
			return
		}
	}
	t.Errorf("the log:\n%s", logged())
}

// dialUntilTheEnd opens a connection that the end of the test closes.
func dialUntilTheEnd(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
