package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"corenode/bench/protocol"
	"corenode/bench/stats"
	"corenode/bench/workload"
)

// Words of the two prompts that are counted: far enough apart for the slope.
const calibrateFew, calibrateMany = 24, 216

// Calibrate asks the server how many tokens it counts in prompts of our words:
// with count_tokens where it has it, else by the usage of answers of one token.
// It is the first that is said to the server: a wrong key or model shows here.
func Calibrate(ctx context.Context, o Options) (workload.Calibration, error) {
	d := newDriver(o, protocol.Encoder{}, nil)
	defer d.pool.Close()
	stop := context.AfterFunc(ctx, d.pool.Close)
	defer stop()
	d.begun = time.Now()
	p := o.Template.Protocol
	if p == protocol.Messages {
		if _, err := d.count(ctx, protocol.Count, 1); err == nil {
			p = protocol.Count
		}
	}
	few, err := d.count(ctx, p, calibrateFew)
	if err != nil {
		return workload.Calibration{}, fmt.Errorf("ask the server how many tokens words have: %w", err)
	}
	many, err := d.count(ctx, p, calibrateMany)
	if err != nil {
		return workload.Calibration{}, fmt.Errorf("ask the server how many tokens words have: %w", err)
	}
	return workload.Fit(calibrateFew, few, calibrateMany, many)
}

// count asks how many tokens a prompt of words has.
func (d *driver) count(ctx context.Context, p protocol.Protocol, words int) (int, error) {
	body, err := d.countedBody(p, workload.Sample(d.o.Shape.Seed, words))
	if err != nil {
		return 0, err
	}
	var rec stats.Record
	d.exchange(ctx, new(scratch), request{head: d.o.Target.Head(p.Path(), false, p.Header(d.o.Keys[0])), protocol: p, body: body}, &rec)
	switch {
	case rec.Kind != "":
		return 0, fmt.Errorf("%s: %s", rec.Kind, rec.Detail)
	case rec.InputTokens < 1:
		return 0, errors.New("its replies have no usage; say how many tokens a word has")
	}
	return rec.InputTokens, nil
}

// countedBody asks for an answer of one token, or to count without an answer.
func (d *driver) countedBody(p protocol.Protocol, prompt []byte) ([]byte, error) {
	t := d.o.Template
	shaping, err := promptMembers(t.Extra)
	if err != nil {
		return nil, err
	}
	if p == protocol.Count {
		return countBody(t.Model, shaping, prompt)
	}
	if t.Extra, err = json.Marshal(shaping); err != nil {
		return nil, err
	}
	t.Stream = false
	encoder, err := t.Encoder()
	return encoder.Append(nil, 1, nil, []protocol.Turn{{Role: "user", Text: prompt}}), err
}

// shapesPrompt are the members that change what a server makes of the same messages.
var shapesPrompt = []string{"thinking", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "documents",
	"chat_template", "chat_template_kwargs", "enable_thinking", "reasoning", "reasoning_effort", "output_config", "response_format"}

// promptMembers are those of a load's members that shape the prompt. Others may be refused with a request to count or with
// an answer of one token: min_tokens, what belongs to a stream.
func promptMembers(extra []byte) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(extra) > 0 {
		if err := json.Unmarshal(extra, &all); err != nil {
			return nil, fmt.Errorf("extra members: %w", err)
		}
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return !slices.Contains(shapesPrompt, name) })
	return all, nil
}

// countBody is a request to count a prompt.
func countBody(model string, shaping map[string]json.RawMessage, prompt []byte) ([]byte, error) {
	members := map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": string(prompt)}}}
	for name, value := range shaping {
		members[name] = value
	}
	return json.Marshal(members)
}
