package vector

import (
	"encoding/json"
	"errors"
	"fmt"

	"corenode/wasm/abi"
)

// event is one entry of a vector's events: a short form of one or more
// events, or with Kind exactly one.
type event struct {
	Start    *usage   `json:"start"`
	Thinking texts    `json:"thinking"`
	Text     texts    `json:"text"` // in the exact form the one delta
	Tool     *tool    `json:"tool"`
	Input    texts    `json:"input"`
	Open     bool     `json:"open"`
	Elapsed  *elapsed `json:"elapsed"`
	End      *end     `json:"end"`

	Kind  string `json:"kind"`
	Block string `json:"block"`
	Index *int32 `json:"index"`
	ID    string `json:"id"`
	Name  string `json:"name"`
}

type tool struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type elapsed struct {
	Total      int64 `json:"total"`
	Prompt     int64 `json:"prompt"`
	Generation int64 `json:"generation"`
}

type end struct {
	Stop         string `json:"stop"`
	StopSequence string `json:"stop_sequence"`
	Usage        usage  `json:"usage"`
}

// texts are the deltas of a block: a string is one, an array one each.
type texts []string

// UnmarshalJSON reads a string or an array of strings.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		*t = make(texts, 1)
		return json.Unmarshal(raw, &(*t)[0])
	}
	all := []string{}
	err := json.Unmarshal(raw, &all)
	*t = all
	return err
}

var blockKinds = map[string]abi.BlockKind{
	"thinking": abi.BlockThinking, "text": abi.BlockText, "tool_use": abi.BlockToolUse,
}

// expand turns the short forms into events.
func expand(all []event) ([]abi.Event, error) {
	var out []abi.Event
	next := int32(0)
	for i, e := range all {
		if e.Elapsed != nil && (i+1 == len(all) || all[i+1].End == nil) {
			return nil, fmt.Errorf("events.%d: elapsed does not stand before an end", i)
		}
		some, err := e.expand(next)
		if err != nil {
			return nil, fmt.Errorf("events.%d: %w", i, err)
		}
		for _, one := range some {
			if one.Kind != abi.EventStart && one.Kind != abi.EventEnd {
				next = max(next, one.Index+1)
			}
		}
		if len(some) > 0 && some[0].Kind == abi.EventEnd && i > 0 && all[i-1].Elapsed != nil {
			took := all[i-1].Elapsed
			some[0].Elapsed = &abi.Elapsed{Total: took.Total, Prompt: took.Prompt, Generation: took.Generation}
		}
		if out = append(out, some...); len(out) > EventsMax {
			return nil, fmt.Errorf("more than %d events", EventsMax)
		}
	}
	return out, nil
}

// expand gives the events of one entry, whose block has the given index
// unless it says another.
func (e event) expand(index int32) ([]abi.Event, error) {
	forms := 0
	for _, is := range []bool{e.Start != nil, e.Thinking != nil, e.Text != nil && e.Kind == "", e.Tool != nil, e.Elapsed != nil,
		e.End != nil, e.Kind != ""} {
		if is {
			forms++
		}
	}
	if forms != 1 {
		return nil, errors.New("it is not exactly one of start, thinking, text, tool, elapsed, end and kind")
	}
	if e.Kind == "" && (e.Block != "" || e.Index != nil || e.ID != "" || e.Name != "") {
		return nil, errors.New(`block, index, id and name belong to the form with "kind"`)
	}
	if e.Input != nil && e.Tool == nil {
		return nil, errors.New(`"input" belongs to a tool`)
	}
	switch {
	case e.Start != nil:
		return []abi.Event{{Kind: abi.EventStart, Usage: abi.Usage(*e.Start)}}, nil
	case e.Thinking != nil:
		return e.block(abi.Event{Block: abi.BlockThinking, Index: index}, e.Thinking), nil
	case e.Tool != nil:
		return e.block(abi.Event{Block: abi.BlockToolUse, Index: index, ID: e.Tool.ID, Name: e.Tool.Name}, e.Input), nil
	case e.Elapsed != nil:
		return nil, nil // the end after it says it
	case e.End != nil:
		stop, err := stopNamed(e.End.Stop)
		return []abi.Event{{Kind: abi.EventEnd, Stop: stop, StopSequence: e.End.StopSequence, Usage: abi.Usage(e.End.Usage)}}, err
	case e.Kind != "":
		return e.exact()
	}
	return e.block(abi.Event{Block: abi.BlockText, Index: index}, e.Text), nil
}

// block gives a whole block, or with Open one that does not stop.
func (e event) block(start abi.Event, deltas []string) []abi.Event {
	start.Kind = abi.EventBlockStart
	out := []abi.Event{start}
	for _, text := range deltas {
		out = append(out, abi.Event{Kind: abi.EventDelta, Block: start.Block, Index: start.Index, Text: text})
	}
	if !e.Open {
		out = append(out, abi.Event{Kind: abi.EventBlockStop, Block: start.Block, Index: start.Index})
	}
	return out
}

func (e event) exact() ([]abi.Event, error) {
	block, known := blockKinds[e.Block]
	if !known || e.Index == nil || *e.Index < 0 || *e.Index > 0xffff {
		return nil, errors.New(`the form with "kind" needs block (thinking, text or tool_use) and index`)
	}
	out := abi.Event{Block: block, Index: *e.Index, ID: e.ID, Name: e.Name}
	switch e.Kind {
	case "block_start":
		out.Kind = abi.EventBlockStart
	case "block_stop":
		out.Kind = abi.EventBlockStop
	case "delta":
		out.Kind = abi.EventDelta
		if len(e.Text) != 1 {
			return nil, errors.New("a delta has one text")
		}
		out.Text = e.Text[0]
	default:
		return nil, fmt.Errorf("kind %q is none of block_start, delta, block_stop", e.Kind)
	}
	return []abi.Event{out}, nil
}

func stopNamed(name string) (abi.StopReason, error) {
	for r := abi.StopNone; r <= abi.StopStopSequence; r++ {
		if r.String() == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("stop %q is none of end_turn, max_tokens, tool_use, stop_sequence", name)
}
