package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"corenode/wasm/abi"
)

// client is the official SDK, as its users make it: a base URL and a key.
func (n *node) client(key string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL("http://"+n.addr), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func params() anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: "core-1.1", MaxTokens: 64,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))}}
}

func TestOfficialSDK(t *testing.T) {
	n := start(t, Config{KeepAlive: time.Millisecond}, newFakeBackend(func(s *fakeStream) {
		time.Sleep(20 * time.Millisecond) // comments come first
		s.out.Push(begin()...)
		time.Sleep(20 * time.Millisecond) // then pings
		s.out.Push(delta("hel"), delta("lo"))
		s.out.Push(end()...)
	}))
	c := n.client(goodKey)

	m, err := c.Messages.New(t.Context(), params())
	if err != nil || len(m.Content) != 1 || m.Content[0].Text != "hello" || m.StopReason != "end_turn" || m.Usage.CacheReadInputTokens != 1 {
		t.Errorf("message: %v %+v", err, m)
	}

	stream := c.Messages.NewStreaming(t.Context(), params())
	var sum anthropic.Message
	for stream.Next() {
		if err := sum.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil || len(sum.Content) != 1 || sum.Content[0].Text != "hello" || sum.StopReason != "end_turn" || sum.Usage.OutputTokens != 2 {
		t.Errorf("stream: %v %+v", stream.Err(), sum)
	}

	count, err := c.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: "core-1.1", Messages: params().Messages})
	if err != nil || count.InputTokens != 5 {
		t.Errorf("count: %v %+v", err, count)
	}

	page, err := c.Models.List(t.Context(), anthropic.ModelListParams{})
	if err != nil || len(page.Data) != 2 || page.HasMore || page.Data[0].ID != "core-1.1" {
		t.Errorf("models: %v %+v", err, page)
	}
	one, err := c.Models.Get(t.Context(), "core-1.1-mini", anthropic.ModelGetParams{})
	if err != nil || one.ID != "core-1.1-mini" || one.CreatedAt.Unix() != 1_700_000_000 {
		t.Errorf("model: %v %+v", err, one)
	}
}

func TestOfficialSDKErrors(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		s.out.Push(delta("half"), abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Overloaded, Msg: "out of pages"}})
	})
	n := start(t, Config{}, backend)
	status := func(c anthropic.Client) int {
		_, err := c.Messages.New(t.Context(), params())
		e, ok := errors.AsType[*anthropic.Error](err)
		if !ok {
			t.Fatalf("not a typed error: %v", err)
		}
		if !strings.HasPrefix(e.RequestID, "req_") {
			t.Errorf("request id %q", e.RequestID)
		}
		return e.StatusCode
	}
	if got := status(n.client("wrong")); got != 401 {
		t.Errorf("wrong key: %d", got)
	}
	for kind, want := range map[abi.Kind]int{abi.InsufficientBalance: 402, abi.RateLimited: 429, abi.Overloaded: 503} {
		backend.refuse = &abi.Error{Kind: kind, Msg: "no"}
		if got := status(n.client(goodKey)); got != want {
			t.Errorf("%s: %d", kind, got)
		}
	}
	backend.refuse = nil
	c := n.client(goodKey)
	stream := c.Messages.NewStreaming(t.Context(), params())
	for stream.Next() {
	}
	if stream.Err() == nil || !strings.Contains(stream.Err().Error(), "overloaded_error") {
		t.Errorf("a broken stream ended with %v", stream.Err())
	}
}
