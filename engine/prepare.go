package engine

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"corenode/engine/grammar"
	"corenode/engine/messages"
	"corenode/engine/output"
	"corenode/engine/sample"
	"corenode/engine/sched"
	"corenode/wasm/abi"
)

// Prepare renders and tokenizes a parsed body and checks it against the
// model: everything that can refuse the request is decided here. Errors are
// *abi.Error. It is safe for concurrent use.
//
// A replayed thinking block is used the same way whether its signature holds
// or not: even text that the model wrote may spell a control token that
// somebody asked it to repeat, so all content is guarded alike.
//
// What is remembered of an account's requests for its next ones no other account finds.
func (e *Engine) Prepare(account string, q *messages.Request) (*Request, error) {
	params, err := e.sampling(q)
	if err != nil {
		return nil, err
	}
	prompt, at, err := e.prompt(q, e.info.ContextLength)
	if err != nil {
		return nil, err
	}
	most, err := OutputMax(e.info, len(prompt), q.MaxTokens, q.RoomTokens)
	if err != nil {
		return nil, err
	}
	if least := q.Sampling.MinTokens; least > most {
		return nil, over("min_tokens", least, most, "the most tokens that this answer may have")
	}
	var form *grammar.Grammar
	var trigger Trigger
	var channels *Channels
	if e.format.calls == callsChannels && !q.Raw {
		channels, err = e.channels(account, q)
	} else {
		form, trigger, err = e.constrain(account, q, at)
	}
	if err != nil {
		return nil, err
	}
	var distinct []int32
	if params.Repeats() {
		distinct = sample.Distinct(prompt)
	}
	return &Request{
		Model: e.info.ID, Stream: q.Stream, Prompt: prompt, MaxTokens: most, Sampling: params, Distinct: distinct,
		MinTokens: q.Sampling.MinTokens, IgnoreEOS: q.Sampling.IgnoreEOS,
		Grammar: form, Trigger: trigger, Channels: channels, Hidden: e.hidden(q), Thinking: e.thinking,
		Parse: output.Options{
			Thinking: at.thinking, Tags: e.format.tags, Begun: at.begun,
			Tools: offered(q), Marked: e.format.marker >= 0, KeyCalls: e.format.calls == callsKeys, Stops: q.StopSequences,
			Delimiters: e.format.delimiters,
			Channels:   channels != nil, Header: at.header, Opened: at.opened,
			SingleCall: q.SingleCall(), Constrained: form != nil, NewID: newToolID,
		},
		Written: e.format.written, Snapshots: e.snapshots(prompt), Conversation: Conversation(q),
	}, nil
}

// outputDefault is the most tokens of an answer to a request that does not say.
const outputDefault = abi.NonStreamingMax

// OutputMax is the most tokens of a model's answer to a prompt: what was asked for,
// which must fit, or with 0 up to outputDefault of what fits. An answer that is to have room for more than fits is refused as
// a prompt that does not fit: it is the prompt that has to be shorter. The error is an *abi.Error.
func OutputMax(info Info, prompt, asked, room int) (int, error) {
	window := info.ContextLength
	switch {
	case prompt > window:
		return 0, tooLong("", prompt, window)
	case room > window-prompt:
		return 0, tooLong("with room for the answer ", prompt+room, window)
	case asked == 0 && prompt < window:
		return min(outputDefault, info.OutputMax, window-prompt), nil
	case prompt+max(1, asked) > window:
		return 0, invalid("max_tokens",
			abi.Detail{Reason: abi.ReasonWindow, Prompt: int64(prompt), Value: int64(max(1, asked)), Bound: int64(window)}, "")
	case asked > info.OutputMax:
		return 0, over("max_tokens", asked, info.OutputMax, "the most this model produces")
	}
	return asked, nil
}

// over is the error of a field that asks for more than bound, of which what says what it is.
func over(param string, value, bound int, what string) *abi.Error {
	return invalid(param, abi.Detail{Reason: abi.ReasonLimit, Value: int64(value), Bound: int64(bound)},
		fmt.Sprintf("%d is over %d, %s", value, bound, what))
}

// countWindows is how many context windows of tokens Count counts up to: so far, a
// client learns by how much it has to shorten a conversation.
const countWindows = 4

// Count returns the number of prompt tokens of a body, the number that a
// request with the same body reports as input. A body of more than countWindows
// context windows is an error.
func (e *Engine) Count(q *messages.Request) (int, error) {
	prompt, _, err := e.prompt(q, countWindows*e.info.ContextLength)
	return len(prompt), err
}

// offered are the tools whose calls the parser recognizes.
func offered(q *messages.Request) (tools []output.Tool) {
	if q.ToolChoice.Mode == "none" {
		return nil
	}
	for _, t := range q.Tools {
		tools = append(tools, output.Tool{Name: t.Name, Schema: t.Schema})
	}
	return tools
}

// sampling is the model's defaults with what the request says. A request with
// a seed draws from that and the number of tokens produced so far alone.
func (e *Engine) sampling(q *messages.Request) (sample.Params, error) {
	d := e.defaults.Load()
	p := d.straight
	if q.Thinking {
		p = d.thinking
	}
	s := &q.Sampling
	set := func(to *float32, v *float64) {
		if v != nil {
			*to = float32(*v)
		}
	}
	set(&p.Temperature, s.Temperature)
	set(&p.TopP, s.TopP)
	set(&p.MinP, s.MinP)
	set(&p.PresencePenalty, s.PresencePenalty)
	set(&p.FrequencyPenalty, s.FrequencyPenalty)
	set(&p.RepetitionPenalty, s.RepetitionPenalty)
	if s.TopK != nil {
		p.TopK = *s.TopK
	}
	if err := p.Validate(); err != nil {
		return p, invalidf("", "%v", err)
	}
	if s.Seed != nil {
		p.Seed = uint64(*s.Seed)
	} else {
		p.Seed = newSeed()
	}
	return p, nil
}

// gridMax is how many snapshots at most a long prompt gets for requests that
// part from it at no place we know, and gridTokens their least distance.
const gridMax, gridTokens = 16, 4096

// snapshots are the places in a prompt where the next request of the
// conversation may part from this one: after the system turn and before the
// answer, both starts of a turn, which the format's token marks; and in a long
// prompt a sparse grid.
func (e *Engine) snapshots(prompt []int32) []int {
	at := e.turns(prompt)
	every := max(gridTokens, (len(prompt)/gridMax+sched.Align)/sched.Align*sched.Align)
	for n := every; n < len(prompt); n += every {
		at = append(at, n)
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// turns are the start of the turn after the system's, and of the last one.
func (e *Engine) turns(prompt []int32) (at []int) {
	if e.format.turn < 0 {
		return nil
	}
	first := slices.Index(prompt, e.format.turn)
	if first < 0 {
		return nil
	}
	if second := slices.Index(prompt[first+1:], e.format.turn); second >= 0 {
		at = append(at, first+1+second)
	}
	for last := len(prompt) - 1; last > first; last-- {
		if prompt[last] == e.format.turn {
			return append(at, last)
		}
	}
	return at
}

// Conversation hashes what stays the same over a conversation's requests.
func Conversation(q *messages.Request) [32]byte {
	h := sha256.New()
	b := make([]byte, 0, 1024) // on the stack; a larger one moves to the heap
	write := func(s string) {
		b = append(append(b[:0], s...), 0)
		h.Write(b)
	}
	system, msgs := messages.Opening(q)
	write(system)
	for _, t := range q.Tools {
		write(t.Name)
		write(t.Description)
		h.Write(Shown(t.Schema))
		write("")
	}
	for _, m := range msgs {
		if m.Role == "user" {
			write(messages.Texts(m.Blocks))
			break
		}
	}
	return [32]byte(h.Sum(b[:0]))
}

// invalidf is the error of a request whose field param, "" for none, cannot be served.
func invalidf(param, format string, args ...any) *abi.Error {
	return invalid(param, abi.Detail{Reason: abi.ReasonField}, fmt.Sprintf(format, args...))
}

func invalid(param string, detail abi.Detail, msg string) *abi.Error {
	return &abi.Error{Kind: abi.InvalidRequest, Op: "engine.Prepare", Detail: detail, Msg: msg, Param: param}
}
