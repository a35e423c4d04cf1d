package fake

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"corenode/engine/upstream/wire"
)

// answerer writes one answer.
type answerer struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	seen    *Seen
	script  Script
	request request
	tokens  int // of the prompt
	cached  int
	deltas  int
}

func (a *answerer) run() {
	partition := a.request.Salt + a.r.Header.Get(wire.PartitionHeader)
	a.cached = a.s.cachedTokens(partition, string(a.request.Messages), a.tokens)
	switch a.script.Fault {
	case DieBeforeHeaders:
		a.die("")
		return
	case Full429, Full503, Broken500, Refuse400, Refuse401:
		a.refuse()
		return
	case ErrorBody:
		a.w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(a.w, `{"error":{"message":"the engine is dead","type":"internal","code":500}}`)
		return
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.w.Header().Set("X-Request-Id", "upstream-"+a.r.Header.Get("X-Request-Id"))
	a.w.WriteHeader(http.StatusOK)
	a.flush()
	if a.script.Fault == DieAfterHeaders {
		a.die("")
		return
	}
	if !a.pause(a.script.First) {
		return
	}
	if err := a.stream(); err != nil {
		return
	}
}

// refuse answers with a status.
func (a *answerer) refuse() {
	status := map[Fault]int{Full429: 429, Full503: 503, Broken500: 500, Refuse400: 400, Refuse401: 401}[a.script.Fault]
	a.w.Header().Set("Content-Type", "application/json")
	if status == 429 || status == 503 {
		a.w.Header().Set("Retry-After", "7")
	}
	a.w.WriteHeader(status)
	fmt.Fprintf(a.w, `{"error":{"message":"the server says %d","type":"error","code":%d}}`, status, status)
}

// pause waits, and says whether the client is still there.
func (a *answerer) pause(d time.Duration) bool {
	if d <= 0 {
		return a.here()
	}
	select {
	case <-time.After(d):
		return true
	case <-a.r.Context().Done():
		return a.here()
	}
}

// here notes when the client has left.
func (a *answerer) here() bool {
	if a.r.Context().Err() == nil {
		return true
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.seen.Left.IsZero() {
		a.seen.Left = time.Now()
	}
	return false
}

func (a *answerer) flush() { _ = http.NewResponseController(a.w).Flush() }

// die sends what is left to send and cuts the connection, with a reset where nothing was sent.
func (a *answerer) die(last string) {
	if last != "" {
		fmt.Fprint(a.w, last)
		a.flush()
	}
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err == nil {
		conn.Close()
		return
	}
	panic(http.ErrAbortHandler)
}

// frame writes one frame, or what the fault makes of it.
func (a *answerer) frame(event string, data any) error {
	text, _ := json.Marshal(data)
	frame := "data: " + string(text) + "\n\n"
	if event != "" {
		frame = "event: " + event + "\n" + frame
	}
	if _, err := fmt.Fprint(a.w, frame); err != nil || !a.here() {
		a.here()
		return errGone
	}
	a.flush()
	return nil
}

// delta is called before each delta: it waits, and does what the fault says.
func (a *answerer) delta() error {
	if !a.pause(a.script.Gap) {
		return errGone
	}
	a.deltas++
	if a.deltas-1 != a.script.At {
		return nil
	}
	switch a.script.Fault {
	case DieBetweenEvents:
		a.die("")
	case DieInEvent:
		a.die("data: {\"type\":\"content_block_del")
	case DieInCharacter:
		a.die("data: {\"type\":\"content_block_delta\",\"x\":\"\xe2\x82")
	case EndEarly:
	case Stall:
		<-a.r.Context().Done()
		a.here()
	case NotJSON:
		fmt.Fprint(a.w, "data: {not json}\n\n")
		a.flush()
		<-a.r.Context().Done()
	case ErrorEvent:
		return a.errorEvent()
	default:
		return nil
	}
	return errGone
}

func (a *answerer) errorEvent() error {
	if a.s.Flavor.Traits().Messages {
		_ = a.frame("error", map[string]any{"type": "error", "error": map[string]any{"type": "api_error", "message": "the engine is dead"}})
	} else {
		_ = a.frame("", map[string]any{"error": map[string]any{"message": "the engine is dead", "code": 500}})
	}
	return errGone
}

// calls are those of the script, as the fault wants them.
func (a *answerer) calls() []Call {
	switch a.script.Fault {
	case InvalidCall:
		return []Call{{Name: "get_weather", Input: `{"city":7}`}}
	case UnknownCall:
		return []Call{{Name: "launch_rocket", Input: `{}`}}
	}
	return a.script.Calls
}

// usage is what the server reports at this moment: prompt without the cached tokens, cached
// tokens and output.
func (a *answerer) usage() (uncached, cached, output int) {
	uncached, cached, output = a.tokens-a.cached, a.cached, a.deltas*max(1, a.script.PerDelta)
	switch a.script.Fault {
	case LieInput:
		uncached += 1000
	case LieOutput:
		output += 100_000
	case LieCached:
		cached, uncached = a.tokens+50, -50
	}
	return uncached, cached, output
}

func (a *answerer) stream() error {
	if a.s.Flavor.Traits().Messages {
		return a.messages()
	}
	return a.chat()
}

type object = map[string]any

// messages writes the stream of the messages protocol.
func (a *answerer) messages() error {
	uncached, cached, _ := a.usage()
	usage := object{"input_tokens": uncached, "cache_read_input_tokens": cached, "output_tokens": 0}
	if a.script.Fault == NoUsage {
		usage = object{}
	}
	err := a.frame("message_start", object{"type": "message_start",
		"message": object{"id": "msg_fake", "type": "message", "role": "assistant",
			"model": a.request.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}})
	if err != nil {
		return err
	}
	_ = a.frame("ping", object{"type": "ping"})
	index := 0
	block := func(start object, deltas []string, kind, field, signature string) error {
		if err := a.frame("content_block_start", object{"type": "content_block_start", "index": index,
			"content_block": start}); err != nil {
			return err
		}
		for _, d := range deltas {
			if err := a.delta(); err != nil {
				return err
			}
			if err := a.frame("content_block_delta", object{"type": "content_block_delta", "index": index,
				"delta": object{"type": kind, field: d}}); err != nil {
				return err
			}
		}
		if signature != "" {
			_ = a.frame("content_block_delta", object{"type": "content_block_delta", "index": index,
				"delta": object{"type": "signature_delta", "signature": signature}})
		}
		index++
		return a.frame("content_block_stop", object{"type": "content_block_stop", "index": index - 1})
	}
	if len(a.script.Thinking) > 0 {
		if err := block(object{"type": "thinking", "thinking": "", "signature": ""}, a.script.Thinking, "thinking_delta", "thinking",
			"theirs/+="); err != nil {
			return err
		}
	}
	if len(a.script.Text) > 0 {
		if err := block(object{"type": "text", "text": ""}, a.script.Text, "text_delta", "text", ""); err != nil {
			return err
		}
	}
	stop := a.script.Stop
	for i, c := range a.calls() {
		stop = "tool_use"
		half := len(c.Input) / 2
		if err := block(object{"type": "tool_use", "id": fmt.Sprint("toolu_", i), "name": c.Name, "input": object{}},
			[]string{c.Input[:half], c.Input[half:]}, "input_json_delta", "partial_json", ""); err != nil {
			return err
		}
	}
	if a.script.Fault == EndEarly {
		return nil
	}
	return a.messagesEnd(stop)
}

func (a *answerer) messagesEnd(stop string) error {
	if stop == "" {
		stop = "end_turn"
	}
	uncached, cached, output := a.usage()
	usage := object{"input_tokens": uncached, "cache_read_input_tokens": cached, "output_tokens": output}
	if a.script.Fault == NoUsage {
		usage = object{}
	}
	if err := a.frame("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": usage}); err != nil {
		return err
	}
	if a.script.Fault == NoDone {
		return nil
	}
	for range map[bool]int{false: 1, true: 2}[a.script.Fault == TwoDone] {
		_ = a.frame("message_stop", object{"type": "message_stop"})
	}
	return nil
}

// chunk writes one chunk of the chat protocol, with the usage where the flavor sends it.
func (a *answerer) chunk(delta object, finish any, extra object) error {
	choice := object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}
	maps.Copy(choice, extra)
	c := object{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": a.request.Model, "choices": []any{choice}}
	if a.request.Options.Continuous && a.script.Fault != NoUsage {
		c["usage"] = a.chatUsage()
	}
	return a.frame("", c)
}

func (a *answerer) chatUsage() object {
	uncached, cached, output := a.usage()
	total := uncached + cached + output
	if a.script.Beside {
		output -= min(a.deltas, len(a.script.Thinking)) * max(1, a.script.PerDelta)
		total = uncached + cached + output + a.script.Reasoning
	}
	usage := object{"prompt_tokens": uncached + cached, "completion_tokens": output, "total_tokens": total,
		"prompt_tokens_details": object{"cached_tokens": cached}}
	if a.script.Reasoning > 0 {
		usage["completion_tokens_details"] = object{"reasoning_tokens": a.script.Reasoning}
	}
	return usage
}

// chat writes the stream of the chat completions protocol.
func (a *answerer) chat() error {
	if err := a.chunk(object{"role": "assistant", "content": ""}, nil, nil); err != nil {
		return err
	}
	say := func(field string, deltas []string) error {
		for _, d := range deltas {
			if err := a.delta(); err != nil {
				return err
			}
			if err := a.chunk(object{field: d}, nil, nil); err != nil {
				return err
			}
		}
		return nil
	}
	if err := say("reasoning_content", a.script.Thinking); err != nil {
		return err
	}
	if err := say("content", a.script.Text); err != nil {
		return err
	}
	finish := map[string]string{"": "stop", "end_turn": "stop", "max_tokens": "length"}[a.script.Stop]
	for i, c := range a.calls() {
		finish = "tool_calls"
		half := len(c.Input) / 2
		for j, piece := range []object{{"name": c.Name, "arguments": c.Input[:half]}, {"arguments": c.Input[half:]}} {
			if err := a.delta(); err != nil {
				return err
			}
			call := object{"index": i, "function": piece}
			if j == 0 {
				call["id"], call["type"] = fmt.Sprint("call_", i), "function"
			}
			if err := a.chunk(object{"tool_calls": []any{call}}, nil, nil); err != nil {
				return err
			}
		}
	}
	if a.script.Fault == EndEarly {
		return nil
	}
	return a.chatEnd(finish)
}

func (a *answerer) chatEnd(finish string) error {
	if err := a.chunk(object{}, finish, object{}); err != nil {
		return err
	}
	if a.script.Fault != NoUsage {
		err := a.frame("", object{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": a.request.Model,
			"choices": []any{}, "usage": a.chatUsage()})
		if err != nil {
			return err
		}
	}
	if a.script.Fault == NoDone {
		return nil
	}
	for range map[bool]int{false: 1, true: 2}[a.script.Fault == TwoDone] {
		fmt.Fprint(a.w, "data: [DONE]\n\n")
		a.flush()
	}
	return nil
}
