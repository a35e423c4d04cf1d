// Package skills asks a server prompts with known answers and says how many it
// gets right, skill by skill.
//
// A file has one case on each line, as JSON: the skill it belongs to, the body
// of a messages request (without model), and what is expected of the answer.
// Answers are judged by rules that a program can check: patterns, equal values,
// the tool that was called, a schema. What decides is in case.go, form.go, promise.go
// and summary.go; what waits is in run.go.
package skills

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"corenode/bench/option"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	URL          string        `json:"-"`
	Key          string        `json:"-"` // sent as x-api-key; no flag of List
	Files        []string      `json:"files"`
	Models       []string      `json:"models"`
	Temperatures []float64     `json:"temperatures"` // negative leaves the server its default
	Only         []string      `json:"only,omitempty"`
	Clients      int           `json:"clients"`
	TokensMax    int           `json:"max_tokens"`
	Timeout      time.Duration `json:"timeout_ns"`
	MinScore     float64       `json:"min_score"`
	Promises     bool          `json:"promises"` // hold the result against what the embedded models promise
}

// List describes the options.
func (o *Options) List() option.List {
	return option.List{
		option.Text(&o.URL, "url", "", "", "address of the server; required"),
		option.Check(func() error {
			if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("--url is %q, want http://host:port", o.URL)
			}
			return nil
		}),
		option.Texts(&o.Models, "model", "the models that are asked, one after the other; required"),
		option.Texts(&o.Files, "file", "the cases, one JSON object on each line; required"),
		option.Check(func() error { return errors.Join(some("model", o.Models), some("file", o.Files)) }),
		option.New(&o.Temperatures, "temperature", []float64{0},
			"temperatures of all requests, one after the other; negative is the server's default",
			(*pflag.FlagSet).Float64SliceVar, func(v []float64) string {
				if len(v) == 0 {
					return "missing, want one or more"
				}
				return ""
			}),
		option.New(&o.Promises, "promises", false, "gates: what the embedded models promise",
			(*pflag.FlagSet).BoolVar, func(bool) string { return "" }),
		option.Texts(&o.Only, "only", "skills to ask for; all when empty"),
		option.Int(&o.Clients, "clients", 4, 1, 1024, "requests in the air at once"),
		option.Int(&o.TokensMax, "max-tokens", 1024, 1, math.MaxInt, "max_tokens of cases that do not say"),
		option.Duration(&o.Timeout, "timeout", 2*time.Minute, 1, option.Unlimited, "bound of one request"),
		option.Float(&o.MinScore, "min-score", 0, 0, 1, "gate: share that every skill must get right"),
	}
}

// some says that a list is empty.
func some(name string, list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("--%s is missing, want one or more", name)
	}
	return nil
}

// Defaults are the options of a run that was told nothing.
func Defaults() (o Options) {
	o.List().Reset()
	return o
}
