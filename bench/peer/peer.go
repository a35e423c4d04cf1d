// Package peer runs the node and other servers in turn on one model file with one
// load, and says how they compare.
//
// A round starts one server, asks it every scenario, stops it, and then does the
// same with the next; every other round goes backwards. All get the same prompts
// from the same load generator over the same protocol, the same number of
// threads and greedy sampling, and none is told to draft or to end early. A ratio is taken
// within a round and says how many times better the node is: more for a rate,
// less for a time. Rounds are kept in a file, which later runs add to: of another
// model, another level of the kernels, other peers. The table is of all of them.
package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"corenode/bench/option"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	Node  string // a path, or a name in PATH
	Model string
	// Paths and Flags are by peer: its program, "" to leave it out, and what else it is told.
	Paths, Flags [len(peers)]string
	// Level forces the node's kernels; "" is the best of the processor. A peer is of the level that it was built for.
	Level        string
	Threads      int
	Rounds       int
	RoundsFile   string
	Limit        time.Duration
	StartTimeout time.Duration
	Only         []string
}

// List describes the options.
func (o *Options) List() option.List {
	list := option.List{
		option.Text(&o.Node, "node", "bin/corenode", "", "the corenode program"),
		option.Text(&o.Model, "model", "", "", "the model file (GGUF); required"),
		option.Text(&o.Level, "level", "", "", "level of the node's kernels; the processor's best when empty"),
		option.Int(&o.Threads, "threads", runtime.GOMAXPROCS(0), 1, 1024, "threads that compute, in all"),
		option.Int(&o.Rounds, "rounds", 3, 0, 1000, "how often all are measured; with 0 the table is of the file's rounds"),
		option.Text(&o.RoundsFile, "rounds-file", "", "", "file of rounds, which are added to and are all in the table"),
		option.Duration(&o.Limit, "limit", time.Hour, 1, option.Unlimited, "no round begins that would probably end later than this"),
		option.Texts(&o.Only, "only", "scenarios to run; all when empty"),
		option.Check(o.checkOnly),
		option.Duration(&o.StartTimeout, "start-timeout", 10*time.Minute, 1, option.Unlimited, "the longest wait until a server is ready"),
		option.Check(o.checkFiles),
	}
	for i, p := range peers {
		list = append(list, option.Text(&o.Paths[i], p.flag, "", "", p.usage),
			option.Text(&o.Flags[i], p.flag+"-flags", p.flags, "", "what else it is told, in words"))
	}
	return list
}

func (o *Options) checkOnly() error {
	for _, name := range o.Only {
		if !known(name) {
			return fmt.Errorf("--only: there is no scenario %q, want some of %s", name, names())
		}
	}
	return nil
}

// checkFiles looks for what a round needs; a table alone needs none of it.
func (o *Options) checkFiles() error {
	if o.Rounds == 0 {
		return nil
	}
	_, err := exec.LookPath(o.Node)
	errs := []error{named("node", err)}
	_, err = os.Stat(o.Model)
	errs = append(errs, named("model", err))
	for i, path := range o.Paths {
		if path != "" {
			_, err = exec.LookPath(path)
			errs = append(errs, named(peers[i].flag, err))
		}
	}
	if strings.Join(o.Paths[:], "") == "" {
		errs = append(errs, errors.New("no peer to compare with: name at least one of --"+strings.Join(flags(), ", --")))
	}
	return errors.Join(errs...)
}

func flags() (all []string) {
	for _, p := range peers {
		all = append(all, p.flag)
	}
	return all
}

// asked are the scenarios of a run.
func (o *Options) asked() []scenario {
	return slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool {
		return len(o.Only) > 0 && !slices.Contains(o.Only, s.name)
	})
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
