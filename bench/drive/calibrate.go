package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	count := d.countByUsage
	if o.Template.Protocol == protocol.Messages {
		if _, err := d.countTokens(ctx, 1); err == nil {
			count = d.countTokens
		}
	}
	few, err := count(ctx, calibrateFew)
	if err != nil {
		return workload.Calibration{}, fmt.Errorf("ask the server how many tokens words have: %w", err)
	}
	many, err := count(ctx, calibrateMany)
	if err != nil {
		return workload.Calibration{}, fmt.Errorf("ask the server how many tokens words have: %w", err)
	}
	return workload.Fit(calibrateFew, few, calibrateMany, many)
}

func (d *driver) sample(words int) []protocol.Turn {
	return []protocol.Turn{{Role: "user", Text: workload.Sample(d.o.Shape.Seed, words)}}
}

func (d *driver) countTokens(ctx context.Context, words int) (int, error) {
	body, err := countBody(d.o.Template, d.sample(words)[0].Text)
	if err != nil {
		return 0, err
	}
	p := d.o.Template.Protocol
	q := request{head: d.o.Target.Head(p.Path()+"/count_tokens", false, p.Header(d.o.Keys[0])), body: body}
	s := new(scratch)
	conn, head, err := d.ask(ctx, q, time.Now().Add(d.o.Timeout))
	if err != nil {
		return 0, err
	}
	defer d.pool.Put(conn)
	if head.Status != http.StatusOK {
		return 0, d.readRefusal(s, conn, head)
	}
	if err := s.collect(conn, wholeMax); err != nil {
		return 0, err
	}
	var reply struct {
		Input int `json:"input_tokens"`
	}
	if err := json.Unmarshal(s.whole, &reply); err != nil || reply.Input < 1 {
		return 0, fmt.Errorf("count_tokens answers %.200q", s.whole)
	}
	return reply.Input, nil
}

// countBody is a request to count a prompt, with those members of the load's
// that change what the template makes of it; others may be refused here.
func countBody(t protocol.Template, prompt []byte) ([]byte, error) {
	members := map[string]any{}
	if len(t.Extra) > 0 {
		var extra map[string]json.RawMessage
		if err := json.Unmarshal(t.Extra, &extra); err != nil {
			return nil, fmt.Errorf("extra members: %w", err)
		}
		for _, name := range []string{"thinking", "tools", "tool_choice"} {
			if value, ok := extra[name]; ok {
				members[name] = value
			}
		}
	}
	members["model"] = t.Model
	members["messages"] = []map[string]string{{"role": "user", "content": string(prompt)}}
	return json.Marshal(members)
}

func (d *driver) countByUsage(ctx context.Context, words int) (int, error) {
	t := d.o.Template
	t.Stream = false
	encoder, err := t.Encoder()
	if err != nil {
		return 0, err
	}
	p := t.Protocol
	q := request{head: d.o.Target.Head(p.Path(), false, p.Header(d.o.Keys[0])), protocol: p, body: encoder.Append(nil, 1, nil, d.sample(words))}
	rec, s := stats.Record{}, new(scratch)
	d.exchange(ctx, s, q, &rec)
	switch {
	case rec.Kind != "":
		return 0, fmt.Errorf("%s: %s", rec.Kind, rec.Detail)
	case rec.InputTokens < 1:
		return 0, errors.New("its replies have no usage; say how many tokens a word has")
	}
	return rec.InputTokens, nil
}
