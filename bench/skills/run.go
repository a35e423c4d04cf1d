package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"corenode/bench/workload"
)

// replyMax bounds the reply that is read.
const replyMax = 16 << 20

// Run asks every case once of each model at each temperature. It says what it does to say.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (Report, error) {
	if err := o.List().Validate(); err != nil {
		return Report{}, err
	}
	cases, err := o.cases()
	if err != nil {
		return Report{}, err
	}
	r := Report{Schema: Schema, Options: o}
	for _, model := range o.Models {
		for _, temperature := range o.Temperatures {
			say("%s, %s", model, temperatureText(temperature))
			results, err := askAll(ctx, o, model, temperature, cases, say)
			if err != nil {
				return Report{}, err
			}
			r.Rounds = append(r.Rounds, Summarize(model, temperature, cases, results))
		}
	}
	if o.Promises {
		r.Gates = promises(r.Rounds)
	}
	return r, nil
}

// cases are those of all files, of the skills that are asked for.
func (o Options) cases() (cases []Case, err error) {
	for _, file := range o.Files {
		more, err := workload.ReadFile(file, Read)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	for _, skill := range o.Only {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Skill == skill }) {
			return nil, fmt.Errorf("--only: %s has no case of %q", strings.Join(o.Files, ", "), skill)
		}
	}
	if len(o.Only) > 0 {
		cases = slices.DeleteFunc(cases, func(c Case) bool { return !slices.Contains(o.Only, c.Skill) })
	}
	return cases, nil
}

// askAll keeps Clients requests in flight. The first error ends the run: a
// server that does not answer has no score.
func askAll(ctx context.Context, o Options, model string, temperature float64, cases []Case, say func(string, ...any)) ([]Result, error) {
	client := &http.Client{Timeout: o.Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: o.Clients}}
	defer client.CloseIdleConnections()
	results := make([]Result, len(cases))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(o.Clients)
	begun := time.Now()
	for i, c := range cases {
		asking.Go(func() error {
			body, err := o.body(model, temperature, c)
			if err != nil {
				return err
			}
			a, err := ask(ctx, client, o, body)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.Skill, c.Name, err)
			}
			results[i] = Result{Answer: a, Fault: c.Judge(a), ValidCalls: c.validCalls(a)}
			return nil
		})
		if (i+1)%100 == 0 {
			say("%d of %d cases after %v", i+1, len(cases), time.Since(begun).Round(time.Second))
		}
	}
	return results, asking.Wait()
}

// body is the request of a case.
func (o Options) body(model string, temperature float64, c Case) ([]byte, error) {
	body := map[string]any{"model": model, "max_tokens": o.TokensMax}
	for name, value := range c.Body {
		body[name] = value
	}
	if temperature >= 0 {
		body["temperature"] = temperature
	} else {
		delete(body, "temperature")
	}
	return json.Marshal(body)
}

func ask(ctx context.Context, client *http.Client, o Options, body []byte) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(o.URL, "/")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("content-type", "application/json")
	req.Header.Set("x-api-key", o.Key)
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, replyMax))
	if err != nil {
		return Answer{}, err
	}
	if res.StatusCode != http.StatusOK {
		return Answer{}, fmt.Errorf("the server answers %s: %.500q", res.Status, reply)
	}
	return parseReply(reply)
}

// parseReply reads a message.
func parseReply(reply []byte) (a Answer, err error) {
	var m struct {
		Content []struct {
			Type, Text, Thinking, Name string
			Input                      json.RawMessage
		}
		Stop  string `json:"stop_reason"`
		Usage struct {
			Output int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal(reply, &m); err != nil {
		return a, fmt.Errorf("read the reply %.200q: %w", reply, err)
	}
	a.Stop, a.Output = m.Stop, m.Usage.Output
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			a.Text += b.Text
		case "thinking":
			a.Thinking += b.Thinking
		case "tool_use":
			a.Calls = append(a.Calls, Call{b.Name, b.Input})
		}
	}
	a.Text, a.Thinking = strings.TrimSpace(a.Text), strings.TrimSpace(a.Thinking)
	return a, nil
}
