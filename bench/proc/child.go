package proc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	readyTimeout = 60 * time.Second // loading a model is part of it
	stopTimeout  = 10 * time.Second // a drain is part of it
	tailMax      = 2 << 10          // bytes of a log that an error quotes
)

// Child is a running server. Its methods are for one goroutine.
type Child struct {
	Name string
	cmd  *exec.Cmd
	log  string        // the file that has its standard error
	done chan struct{} // closed when it has ended and all its output is read
}

// Spec says what to start.
type Spec struct {
	Name string   // for errors and reports
	Path string   // the program
	Args []string // without the program's name
	Env  []string // NAME=VALUE, beside those of this program's own that are not for a node
	Dir  string   // where the file NAME.log with its standard error is made
	Work string   // the folder that it runs in, where it may leave files; empty: this program's
	// Ready finds in a line of standard output what the caller waits for, such
	// as an address. Lines after that are read and dropped.
	Ready func(line string) (value string, ok bool)
	// Health is asked instead where Ready is nil: an address that answers 200
	// once the server is ready. The value is Health itself.
	Health string
	// Timeout is how long that may take. 0 is a minute.
	Timeout time.Duration
}

// FreeAddress is one of this machine that nobody listens on, for a program that must be told its own. Its port is
// below those that systems give to who asks for any: nobody gets it until that program listens.
func FreeAddress() (address string, err error) {
	for range 100 {
		address = fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		var ln net.Listener
		if ln, err = net.Listen("tcp", address); err == nil {
			return address, ln.Close()
		}
	}
	return "", err
}

// environment is this program's own without what nodes read of theirs: it wins over the configuration that we write, could
// send a run's rows into a database in use, and have each request traced.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CORENODE_") || strings.HasPrefix(v, "OTEL_")
	})
}

// Command is one of the short commands of a program, whose environment is that of a Child without any Env.
func Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, path, args...)
	c.Env = environment()
	return c
}

// Start starts a server, waits until Ready has found its value and returns it.
// When it fails, or ctx ends first, nothing is left running.
func Start(ctx context.Context, s Spec) (*Child, string, error) {
	c := &Child{Name: s.Name, log: filepath.Join(s.Dir, s.Name+".log"), done: make(chan struct{})}
	logTo, err := os.Create(c.log)
	if err != nil {
		return nil, "", err
	}
	defer logTo.Close() // the child has its own handle
	c.cmd = exec.Command(s.Path, s.Args...)
	c.cmd.Stderr, c.cmd.Dir = logTo, s.Work
	c.cmd.SysProcAttr = dieWithParent()
	c.cmd.Env = append(environment(), s.Env...)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Name, err)
	}
	found := make(chan string, 1)
	ready := s.Ready
	if ready == nil {
		ready = func(string) (string, bool) { return "", false }
		asking, stop := context.WithCancel(ctx)
		defer stop()
		go probe(asking, s.Health, found)
	}
	go c.watch(out, ready, found)
	value, err := c.await(ctx, found, cmp.Or(s.Timeout, readyTimeout))
	if err != nil {
		return nil, "", errors.Join(err, c.Stop())
	}
	return c, value, nil
}

// probeEvery is how often a server's health is asked for.
const probeEvery = 20 * time.Millisecond

// probe waits until the address answers 200. Until then nobody may listen
// there, so what goes wrong only means: not yet.
func probe(ctx context.Context, address string, found chan<- string) {
	for again := time.NewTicker(probeEvery); ; {
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil); err == nil {
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					found <- address
					return
				}
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// watch owns the child's standard output and its end.
func (c *Child) watch(out io.Reader, ready func(string) (string, bool), found chan<- string) {
	defer close(c.done)
	lines := bufio.NewScanner(out)
	for waiting := true; lines.Scan(); {
		if value, ok := ready(lines.Text()); ok && waiting {
			found <- value
			waiting = false
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long: the child must not block
	_ = c.cmd.Wait()                // its log says why it ended
}

func (c *Child) await(ctx context.Context, found <-chan string, limit time.Duration) (string, error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case value := <-found:
		return value, nil
	case <-c.done:
		select {
		case value := <-found: // it was ready, and has ended since
			return value, nil
		default:
			return "", fmt.Errorf("%s ended before it was ready%s", c.Name, c.tail())
		}
	case <-timeout.C:
		return "", fmt.Errorf("%s was not ready after %v%s", c.Name, limit, c.tail())
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// tail quotes the end of the child's log.
func (c *Child) tail() string {
	b, _ := os.ReadFile(c.log)
	b = b[max(0, len(b)-tailMax):]
	if len(b) == 0 {
		return "; it logged nothing"
	}
	return "; its log ends with:\n" + strings.TrimSpace(string(b))
}

// PID names the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Alive returns an error, with the end of the log, when the child has ended.
func (c *Child) Alive() error {
	select {
	case <-c.done:
		return fmt.Errorf("%s ended (%v)%s", c.Name, c.cmd.ProcessState, c.tail())
	default:
		return nil
	}
}

// Stop asks the child to end, kills it when it does not within a bound, and
// returns when it is gone. Its exit status is an error only if it was killed.
func (c *Child) Stop() error {
	select {
	case <-c.done:
		return nil
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has just ended
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-c.done:
		return nil
	case <-timeout.C:
		_ = c.cmd.Process.Kill() // the same
		<-c.done
		return fmt.Errorf("%s did not stop within %v and was killed", c.Name, stopTimeout)
	}
}
