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
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"corenode/bench/option"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	Node         string        `json:"-"` // a path, or a name in PATH
	Server       string        `json:"-"` // the same
	Model        string        `json:"-"`
	Threads      int           `json:"threads"`
	Rounds       int           `json:"rounds"`
	StartTimeout time.Duration `json:"-"`
	Only         []string      `json:"only,omitempty"`
}

// List describes the options.
func (o *Options) List() option.List {
	program := func(flag string, path *string) option.Option {
		return option.Check(func() error {
			_, err := exec.LookPath(*path)
			return named(flag, err)
		})
	}
	return option.List{
		option.Text(&o.Node, "node", "bin/corenode", "", "the corenode program"),
		program("node", &o.Node),
		option.Text(&o.Server, "llama-server", "", "", "the other program; required"),
		program("llama-server", &o.Server),
		option.Text(&o.Model, "model", "", "", "the model file (GGUF); required"),
		option.Check(func() error {
			_, err := os.Stat(o.Model)
			return named("model", err)
		}),
		option.Int(&o.Threads, "threads", runtime.GOMAXPROCS(0), 1, 1024, "threads that compute, in both"),
		option.Int(&o.Rounds, "rounds", 3, 1, 1000, "how often both are measured"),
		option.Texts(&o.Only, "only", "scenarios to run; all when empty"),
		option.Check(func() error {
			for _, name := range o.Only {
				if !known(name) {
					return fmt.Errorf("--only: there is no scenario %q, want some of %s", name, names())
				}
			}
			return nil
		}),
		option.Duration(&o.StartTimeout, "start-timeout", 10*time.Minute, 1, option.Unlimited, "the longest wait until a server is ready"),
	}
}

func named(flag string, err error) error {
	if err != nil {
		err = fmt.Errorf("--%s: %w", flag, err)
	}
	return err
}

// Defaults are the options of a run that was told nothing.
func Defaults() (o Options) {
	o.List().Reset()
	return o
}
