// Package peer runs the node and a llama-server in turn on one model file with
// one load, and says how they compare.
//
// A round starts one server, asks it every scenario, stops it, and then does the
// same with the other; every other round begins with the other one. Both get the
// same prompts from the same load generator over the same protocol, the same
// number of threads and greedy sampling, and neither is told to end early. A
// ratio is taken within a round and says how many times better the node is: more
// for a rate, less for a time.
package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Options say what a run does.
type Options struct {
	// Node is the corenode program: a path, or a name in PATH. Default bin/corenode.
	Node string `json:"-"`
	// Server is llama-server: a path, or a name in PATH. Required.
	Server string `json:"-"`
	// Model is the path of the GGUF file. Required.
	Model string `json:"-"`
	// Threads compute in both. Default: one per processor.
	Threads int `json:"threads"`
	// Rounds is how often both are measured. Default 3.
	Rounds int `json:"rounds"`
	// StartTimeout bounds one start of a server. Default 10m.
	StartTimeout time.Duration `json:"-"`
	// Only names the scenarios to run; empty is all.
	Only []string `json:"only,omitempty"`
}

// Defaults are the options of a run that was told the server and the model.
func Defaults() Options {
	return Options{Node: "bin/corenode", Threads: runtime.GOMAXPROCS(0), Rounds: 3, StartTimeout: 10 * time.Minute}
}

// Validate names each option that is out of its bounds, as its flag.
func (o Options) Validate() error {
	var errs []error
	program := func(flag, path string) {
		if _, err := exec.LookPath(path); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	program("node", o.Node)
	program("llama-server", o.Server)
	if _, err := os.Stat(o.Model); err != nil {
		errs = append(errs, fmt.Errorf("--model: %w", err))
	}
	if o.Threads < 1 || o.Threads > 1024 {
		errs = append(errs, fmt.Errorf("--threads is %d, want 1 to 1024", o.Threads))
	}
	if o.Rounds < 1 || o.Rounds > 1000 {
		errs = append(errs, fmt.Errorf("--rounds is %d, want 1 to 1000", o.Rounds))
	}
	if o.StartTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--start-timeout is %v, want more than 0", o.StartTimeout))
	}
	for _, name := range o.Only {
		if !known(name) {
			errs = append(errs, fmt.Errorf("--only: there is no scenario %q, want some of %s", name, names()))
		}
	}
	return errors.Join(errs...)
}
