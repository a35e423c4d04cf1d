package upstream

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"corenode/engine"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// Frames of another node.
const (
	framePing  = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	frameStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":4}}}\n\n"
	frameText  = `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I look."}}` + "\n\n"
	frameCall = `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":1}` + "\n\n"
	frameEnd = `data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}` + "\n\n" +
		`data: {"type":"message_stop"}` + "\n\n"
)

// TestSlowNode: another node promises an answer while it queues, and pings while it writes a call,
// which it holds back: neither is a stall.
func TestSlowNode(t *testing.T) {
	t.Parallel()
	withMoreTime(t, func(stall time.Duration) error { return trySlowNode(t, stall) })
}

func trySlowNode(t *testing.T, stall time.Duration) error {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path != wire.Corenode.Path() {
			_, _ = io.WriteString(w, `{"input_tokens":4}`)
			return
		}
		write := func(frames string) {
			_, _ = io.WriteString(w, frames)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		write(frameStart + framePing)
		time.Sleep(stall * 5 / 4)
		write(frameText)
		for range 25 {
			time.Sleep(stall / 20)
			write(framePing)
		}
		write(frameCall + frameEnd)
	}))
	t.Cleanup(s.Close)
	m := open(t, wire.Corenode, func(o *Options) { o.URLs, o.StallTimeout = []string{s.URL}, stall })
	waitFor(t, "the node to be ready", m.anyReady)
	got := newLoop(t, m).ask("a", fmt.Sprintf(helloBody, `,"stream":true,"tools":[{"name":"f","input_schema":{"type":"object"}}]`))
	if got.refused != nil || got.result.Err != nil || got.result.Source.Attempts != 1 {
		return fmt.Errorf("refused %v, ended with %v, %+v", got.refused, got.result.Err, got.result.Source)
	}
	if text(got.events, abi.BlockText) != "I look." || text(got.events, abi.BlockToolUse) != `{"a":1}` {
		t.Errorf("%+v", got.events)
	}
	return nil
}

// TestPingsBeforeTheFirstPiece: a node of the same database pings while a request waits in its queue, and answers when it
// comes to it. Whatever else pings has FirstTimeout for its first piece.
func TestPingsBeforeTheFirstPiece(t *testing.T) {
	for own, want := range map[string]struct {
		after  time.Duration
		stalls bool
	}{"http://own": {20 * time.Minute, false}, "": {10 * time.Minute, true}} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			var node sync.WaitGroup
			node.Go(func() {
				defer far.Close()
				for _, frames := range append(append([]string{frameStart}, slices.Repeat([]string{framePing}, 59)...), frameText+frameEnd) {
					if _, err := io.WriteString(far, frames); err != nil {
						return
					}
					time.Sleep(20 * time.Second)
				}
			})
			begun := time.Now()
			options := Options{Own: own, FirstTimeout: 10 * time.Minute, StallTimeout: time.Minute}
			m := &Model{options: options, traits: wire.Corenode.Traits(), set: route.New(route.Config{})}
			r := &relay{model: m, sent: &sent{},
				job: &engine.Job{Request: &engine.Request{Stream: true, MaxTokens: 100}, Output: engine.NewWholeOutput()},
				ctx: t.Context(), firstBy: begun.Add(10 * time.Minute),
				reader: wire.NewReader(wire.Corenode, nil, func() string { return "toolu_1" })}
			o := r.stream(newConn(near), near)
			after := time.Since(begun)
			near.Close()
			node.Wait()
			stalls := o != nil && o.reason == ReasonStall
			if stalls != want.stalls || stalls == (o == nil) || after != want.after {
				t.Errorf("own %q: it ended after %v with %+v", own, after, o)
			}
		})
	}
}

// TestPingsAlone: pings are a sign of life of servers that work on what they hold back, but of no
// others, not before the first piece, and not for ever; of a node of the same database they always are.
func TestPingsAlone(t *testing.T) {
	begun := time.Unix(1_000_000, 0)
	first := begun.Add(10 * time.Minute)
	for _, c := range []struct {
		pings  bool
		own    bool
		pieces []time.Duration // since it began; pings come every 10 s
		until  time.Duration
		due    time.Duration
	}{
		{true, false, nil, 5 * time.Minute, 10 * time.Minute},
		{true, false, []time.Duration{0}, 0, time.Minute},
		{true, false, []time.Duration{0}, 5 * time.Minute, 6 * time.Minute},
		{true, false, []time.Duration{0}, 20 * time.Minute, 10 * time.Minute},
		{true, false, []time.Duration{0, 8 * time.Minute}, 20 * time.Minute, 18 * time.Minute},
		{false, false, []time.Duration{0}, 5 * time.Minute, time.Minute},
		{true, true, nil, 5 * time.Minute, 10 * time.Minute},
		{true, true, nil, 20 * time.Minute, 21 * time.Minute},
		{true, true, []time.Duration{0}, 20 * time.Minute, 21 * time.Minute},
	} {
		p := pace{first: 10 * time.Minute, stall: time.Minute, pings: c.pings, own: c.own, due: first}
		pieces := c.pieces
		for at := time.Duration(0); at <= c.until; at += 10 * time.Second {
			if len(pieces) > 0 && pieces[0] == at {
				p.piece(begun.Add(at))
				pieces = pieces[1:]
			} else {
				p.ping(begun.Add(at))
			}
		}
		if got := p.due.Sub(begun); got != c.due {
			t.Errorf("%+v: due after %v", c, got)
		}
	}
}
