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
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Options say what a run does.
type Options struct {
	// URL is the server's address, such as http://127.0.0.1:8080. Required.
	URL string `json:"-"`
	// Key is sent as x-api-key.
	Key string `json:"-"`
	// File has the cases.
	File string `json:"file"`
	// Model is asked. Required.
	Model string `json:"model"`
	// Temperature replaces that of the cases when it is not negative; negative
	// leaves the server its default. Default 0.
	Temperature float64 `json:"temperature"`
	// Only names the skills to ask for; empty is all.
	Only []string `json:"only,omitempty"`
	// Clients is how many requests are in the air at once. Default 4.
	Clients int `json:"clients"`
	// TokensMax is max_tokens of cases that do not say. Default 1024.
	TokensMax int `json:"max_tokens"`
	// Timeout bounds one request. Default 2m.
	Timeout time.Duration `json:"timeout_ns"`
	// MinScore is the gate: the share that every skill must get right. Default 0, which all meet.
	MinScore float64 `json:"min_score"`
}

// Defaults are the options of a run that was told the server, the model and the file.
func Defaults() Options {
	return Options{Clients: 4, TokensMax: 1024, Timeout: 2 * time.Minute}
}

// Validate names each option that is out of its bounds, as its flag.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		bad("--url is %q, want http://host:port", o.URL)
	}
	if o.File == "" {
		bad("--file is missing, want a file of cases")
	}
	if o.Model == "" {
		bad("--model is missing")
	}
	if o.Clients < 1 || o.Clients > 1024 {
		bad("--clients is %d, want 1 to 1024", o.Clients)
	}
	if o.TokensMax < 1 {
		bad("--max-tokens is %d, want at least 1", o.TokensMax)
	}
	if o.Timeout <= 0 {
		bad("--timeout is %v, want more than 0", o.Timeout)
	}
	if !(o.MinScore >= 0 && o.MinScore <= 1) {
		bad("--min-score is %v, want 0 to 1", o.MinScore)
	}
	return errors.Join(errs...)
}
