// Package skills asks a server prompts with known answers and says how many it
// gets right, skill by skill.
//
// A file has one case on each line, as JSON: the skill it belongs to, the body
// of a messages request (without model), and what is expected of the answer.
// Answers are judged by rules that a program can check: patterns, equal values,
// the tool that was called. What decides is in case.go and summary.go; what
// waits is in run.go.
package skills

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"corenode/bench/option"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	URL         string        `json:"-"`
	Key         string        `json:"-"` // sent as x-api-key; no flag of List
	File        string        `json:"file"`
	Model       string        `json:"model"`
	Temperature float64       `json:"temperature"` // negative leaves the server its default
	Only        []string      `json:"only,omitempty"`
	Clients     int           `json:"clients"`
	TokensMax   int           `json:"max_tokens"`
	Timeout     time.Duration `json:"timeout_ns"`
	MinScore    float64       `json:"min_score"`
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
		option.Text(&o.Model, "model", "", "the name of one", "the model that is asked; required"),
		option.Text(&o.File, "file", "", "a file of cases", "the cases, one JSON object on each line; required"),
		option.Float(&o.Temperature, "temperature", 0, math.Inf(-1), math.Inf(1),
			"temperature of every request; negative is the server's default"),
		option.Texts(&o.Only, "only", "skills to ask for; all when empty"),
		option.Int(&o.Clients, "clients", 4, 1, 1024, "requests in the air at once"),
		option.Int(&o.TokensMax, "max-tokens", 1024, 1, math.MaxInt, "max_tokens of cases that do not say"),
		option.Duration(&o.Timeout, "timeout", 2*time.Minute, 1, option.Unlimited, "bound of one request"),
		option.Float(&o.MinScore, "min-score", 0, 0, 1, "gate: share that every skill must get right"),
	}
}

// Defaults are the options of a run that was told nothing.
func Defaults() (o Options) {
	o.List().Reset()
	return o
}
