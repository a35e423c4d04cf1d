package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"corenode/bench/proc"
	"corenode/bench/workload"
)

// side is one of the two servers.
type side int

const (
	node side = iota
	other
	sides
)

func (s side) String() string { return [...]string{"node", "llama-server"}[s] }

// target is a running server and how to ask it.
type target struct {
	child *proc.Child
	url   string
	key   string
	node  *proc.Node // nil for the other server
}

// slots and slotTokens size the other server: as many conversations at once as
// the largest scenario has, each with room for the longest one.
const (
	slots      = 16
	slotTokens = 2560
)

// start starts one side and waits until it is ready.
func (r *run) start(ctx context.Context, s side) (target, error) {
	if s == node {
		return r.startNode(ctx)
	}
	return r.startOther(ctx)
}

func (r *run) startNode(ctx context.Context) (target, error) {
	model, err := filepath.Abs(r.o.Model)
	if err != nil {
		return target{}, err
	}
	n, err := proc.StartNode(ctx, proc.Spec{Name: "node", Path: r.o.Node, Dir: r.dir, Timeout: r.o.StartTimeout},
		proc.CPUConfig(workload.Model, model, r.o.Threads))
	if err != nil {
		return target{}, err
	}
	if err := n.AwaitModules(ctx); err != nil {
		return target{}, errors.Join(err, n.Stop())
	}
	return target{n.Child, n.URL, n.Key, n}, nil
}

func (r *run) startOther(ctx context.Context) (target, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // for a port that nobody else listens on
	if err != nil {
		return target{}, err
	}
	ln.Close()
	address, threads := ln.Addr().String(), strconv.Itoa(r.o.Threads)
	_, port, _ := net.SplitHostPort(address)
	child, _, err := proc.Start(ctx, proc.Spec{Name: "llama-server", Path: r.o.Server, Dir: r.dir, Timeout: r.o.StartTimeout,
		Args: []string{"--host", "127.0.0.1", "--port", port, "--model", r.o.Model, "--alias", workload.Model,
			"--threads", threads, "--threads-batch", threads,
			"--parallel", strconv.Itoa(slots), "--ctx-size", strconv.Itoa(slots * slotTokens), "--jinja"},
		Health: "http://" + address + "/health"})
	return target{child: child, url: "http://" + address}, err
}

// startBusy starts programs that only compute, one for each processor that the servers use.
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
	for i := range r.o.Threads {
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
