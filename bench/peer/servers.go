package peer

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"corenode/bench/proc"
	"corenode/bench/workload"
)

// nodeName is the node's in a round.
const nodeName = "node"

// peer is a server that the node is compared with.
type peer struct {
	name  string
	flag  string // names its program
	usage string
	flags string // what it is told beyond what all are, as METHOD.md explains
	// script is a program in Python that the named interpreter runs; "" for a server of llama.cpp's kind.
	script string
}

//go:embed openvino_server.py
var openVINOServer string

// peers are known. Their order is that of the table.
var peers = [...]peer{
	{name: llama, flag: "llama-server", usage: "llama-server of llama.cpp"},
	{name: ik, flag: "ik-llama-server", usage: "llama-server of ik_llama.cpp", flags: "--run-time-repack"},
	{name: openVINO, flag: "openvino-python", usage: "python3 of an environment that has openvino-genai (PyPI)",
		script: openVINOServer},
}

// target is a running server and how to ask it.
type target struct {
	child *proc.Child
	url   string
	key   string
	node  *proc.Node // nil for a peer
}

// slots and slotTokens size the peers: as many conversations at once as the
// largest scenario has, each with room for the longest one.
const (
	slots      = 16
	slotTokens = 2560
)

func (r *run) startNode(ctx context.Context) (target, error) {
	model, err := filepath.Abs(r.o.Model)
	if err != nil {
		return target{}, err
	}
	spec := proc.Spec{Name: nodeName, Path: r.o.Node, Dir: r.dir, Timeout: r.o.StartTimeout}
	if r.o.Level != "" {
		spec.Env = []string{"CORENODE_CPU_LEVEL=" + r.o.Level}
	}
	n, err := proc.StartNode(ctx, spec, proc.CPUConfig(workload.Model, model, r.o.Threads))
	if err != nil {
		return target{}, err
	}
	if err := n.AwaitModules(ctx); err != nil {
		return target{}, errors.Join(err, n.Stop())
	}
	return target{n.Child, n.URL, n.Key, n}, nil
}

// startPeer starts peers[i] on a port that nobody else listens on.
func (r *run) startPeer(ctx context.Context, i int) (target, error) {
	address, err := proc.FreeAddress()
	if err != nil {
		return target{}, err
	}
	model, err := filepath.Abs(r.o.Model)
	if err != nil {
		return target{}, err
	}
	program, err := exec.LookPath(r.o.Paths[i])
	if err == nil { // it leaves a log in the folder that it runs in
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return target{}, err
	}
	threads := strconv.Itoa(r.o.Threads)
	_, port, _ := net.SplitHostPort(address)
	args := []string{"--port", port, "--model", model, "--alias", workload.Model, "--threads", threads}
	if peers[i].script == "" {
		args = append(args, "--host", "127.0.0.1", "--threads-batch", threads,
			"--parallel", strconv.Itoa(slots), "--ctx-size", strconv.Itoa(slots*slotTokens), "--jinja")
	} else {
		args = append([]string{r.file(i)}, args...)
	}
	child, _, err := proc.Start(ctx, proc.Spec{Name: peers[i].flag, Path: program, Dir: r.dir, Work: r.dir, Timeout: r.o.StartTimeout,
		Args: append(args, strings.Fields(r.o.Flags[i])...), Health: "http://" + address + "/health"})
	return target{child: child, url: "http://" + address}, err
}

// file is where the script of peers[i] is while the run lasts.
func (r *run) file(i int) string { return filepath.Join(r.dir, peers[i].flag+".py") }

// versionTimeout bounds how long a program may take to say which it is: one imports a large package first.
const versionTimeout = time.Minute

// version asks a program which it is: the words after "version" in what it prints.
func (r *run) version(ctx context.Context, i int) (string, error) {
	args := []string{"--version"}
	if peers[i].script != "" {
		if err := os.WriteFile(r.file(i), []byte(peers[i].script), 0o600); err != nil {
			return "", err
		}
		args = []string{r.file(i), "--version"}
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, r.o.Paths[i], args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w: %.500s", peers[i].name, err, out)
	}
	return versionIn(string(out)), nil
}

// nodeVersion is what the node says of itself and the begin of its program's digest: builds between two versions say the same.
func nodeVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	said, err := proc.Command(ctx, program, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", program, err)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return "", err
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(said)), "corenode ")
	return fmt.Sprintf("%s (program %.4x)", version, digest.Sum(nil)), nil
}

// versionIn finds the line that says a version; "" is none.
func versionIn(text string) string {
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, "version: "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// startBusy starts programs that only compute, one for each processor.
func (r *run) startBusy(ctx context.Context) (stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []*proc.Child
	stop = func() error {
		var errs []error
		for _, c := range all {
			errs = append(errs, c.Stop())
		}
		return errors.Join(errs...)
	}
	for i := range runtime.NumCPU() {
		c, _, err := proc.Start(ctx, proc.Spec{Name: fmt.Sprint("busy", i), Path: self, Dir: r.dir, Args: []string{SpinCommand},
			Ready: func(line string) (string, bool) { return line, line == SpinGreeting }, Timeout: 10 * time.Second})
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		all = append(all, c)
	}
	return stop, nil
}

// SpinCommand is this program in the role of one that only computes, and SpinGreeting its only line.
const (
	SpinCommand  = "__spin"
	SpinGreeting = "spinning"
)
