package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Node is a node that was started to be measured.
type Node struct {
	*Child
	URL   string
	Data  string        // its data folder
	Key   string        // of its first account
	Ready time.Duration // from its start to the line that says that it is ready
}

// StartNode starts a node with a configuration and waits until it is ready; its
// data and its log stand in folder s.Dir under s.Name. s has the program, and no arguments.
func StartNode(ctx context.Context, s Spec, config []byte) (n *Node, err error) {
	file := filepath.Join(s.Dir, s.Name+".yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	n = &Node{Data: filepath.Join(s.Dir, s.Name)}
	s.Args, s.Ready = []string{"serve", "--config", file, "--data-dir", n.Data}, BaseURL
	begun := time.Now()
	if n.Child, n.URL, err = Start(ctx, s); err != nil {
		return nil, err
	}
	n.Ready = time.Since(begun)
	if n.Key, err = n.read("default.key"); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

// CPUConfig is a node's configuration that serves one model file with its own
// kernels. Answers are always the likeliest tokens, nothing is charged, and nothing
// is drafted: a stream's token is a step that reads all weights. Nothing else
// differs from the defaults but the threads.
func CPUConfig(model, path string, threads int) []byte {
	return fmt.Appendf(nil, `listen: 127.0.0.1:0
admin:
  listen: 127.0.0.1:0
models:
  %s:
    engine: cpu
    path: %q
    threads: %d
    speculation: "off"
    prices:
      input: "0"
      cached_input: "0"
      output: "0"
    sampling:
      temperature: 0
      presence_penalty: 0
`, model, path, threads)
}

// BaseURL finds the address in a node's greeting; it is a Spec's Ready.
func BaseURL(line string) (string, bool) {
	fields := strings.Fields(line)
	if len(fields) == 3 && fields[0] == "base" && fields[1] == "URL" {
		return fields[2], true
	}
	return "", false
}

// read reads a file that the node has made in its data folder.
func (n *Node) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(n.Data, name))
	if err != nil {
		return "", fmt.Errorf("read the node's %s: %w", name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// The bounds of what Errors returns.
const (
	errorsMax     = 20
	errorBytesMax = 500
)

// Errors reads the node's log: the first lines of the level ERROR, the begin of each, and how many there are in all.
func (n *Node) Errors() (first []string, all int, err error) {
	f, err := os.Open(n.log)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, `"level":"ERROR"`) { // in what a line quotes the quotes are escaped
			if all++; all <= errorsMax {
				line = strings.TrimSpace(line)
				first = append(first, line[:min(len(line), errorBytesMax)])
			}
		}
		if errors.Is(err, io.EOF) {
			return first, all, nil
		}
		if err != nil {
			return first, all, fmt.Errorf("read the node's log: %w", err)
		}
	}
}

// adminMax bounds an answer of the admin listener: profiles are the largest.
const adminMax = 64 << 20

// Admin asks the node's admin listener, whose address and token are in its data folder.
func (n *Node) Admin(ctx context.Context, path string) ([]byte, error) {
	addr, err := n.read("admin.addr")
	if err != nil {
		return nil, err
	}
	token, _ := n.read("admin.token") // metrics need none
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, adminMax))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %.200s", path, res.Status, b)
	}
	return b, err
}

// Metric reads one series of the node, summed over its labels. A series that
// the node does not have is an error.
func (n *Node) Metric(ctx context.Context, name string) (float64, error) {
	b, err := n.Admin(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	return sum(b, name)
}

// sum adds the samples of a series in Prometheus' text format.
func sum(text []byte, name string) (total float64, err error) {
	found := false
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		total, found = total+v, true
	}
	if !found {
		return 0, fmt.Errorf("the node has no metric %s", name)
	}
	return total, nil
}

const modulesTimeout = 2 * time.Minute // compiling them for the first time is part of it

// AwaitModules waits until the node serves with its shipped modules, which it
// loads in the background after its start: that takes seconds of CPU time, and
// before it other code answers. A server that tells no admin address in its
// data folder has no modules, and a node without the gauge loads none.
func (n *Node) AwaitModules(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, modulesTimeout)
	defer cancel()
	for again := time.NewTicker(100 * time.Millisecond); ; {
		b, err := n.Admin(ctx, "/metrics")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("wait for the node's modules: %w", err)
		case !bytes.Contains(b, []byte("\ncorenode_modules_loading 1\n")):
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the node's modules: %w", ctx.Err())
		}
	}
}
