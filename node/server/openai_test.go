package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"corenode/wasm/abi"
)

// The official SDK makes typed errors of what the front end answers itself, and
// of what a translator answers, and sees that a stream broke.
func TestOpenAIClientErrors(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		s.out.Push(delta("half"), abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Overloaded, Msg: "out of pages"}})
	})
	n := startTranslated(t, Config{}, backend, &fakeTranslators{})
	client := func(key string, more ...option.RequestOption) openai.Client {
		return openai.NewClient(append([]option.RequestOption{option.WithBaseURL("http://" + n.addr + "/v1"), option.WithAPIKey(key)}, more...)...)
	}
	ask := openai.ChatCompletionNewParams{Model: "core-1.1", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	answer := responses.ResponseNewParams{Model: "core-1.1", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
	check := func(c openai.Client, status int, code string) {
		t.Helper()
		_, chatErr := c.Chat.Completions.New(t.Context(), ask)
		_, responsesErr := c.Responses.New(t.Context(), answer)
		for _, err := range []error{chatErr, responsesErr} {
			e, ok := errors.AsType[*openai.Error](err)
			if !ok || e.StatusCode != status || e.Code != code || e.Message == "" || e.Type == "" {
				t.Errorf("want %d %s: %v", status, code, err)
			}
		}
	}
	once := option.WithMaxRetries(0)
	check(client("wrong", once), 401, "unauthorized")
	for _, k := range []abi.Kind{abi.InsufficientBalance, abi.RateLimited, abi.Overloaded, abi.InvalidRequest,
		abi.ModelNotFound, abi.Internal} {
		backend.refuse = &abi.Error{Kind: k, Msg: "no", Param: "model"}
		check(client(goodKey, once), familyChat.statusOf(k), k.Names().Code)
	}
	backend.refuse = nil

	// The connection of a broken stream closes. Who reuses it at that moment has to
	// send again, as the SDK does unless it is told not to.
	c := client(goodKey)
	stream := c.Chat.Completions.NewStreaming(t.Context(), ask)
	for stream.Next() {
	}
	if stream.Err() == nil || !strings.Contains(stream.Err().Error(), "out of pages") {
		t.Errorf("a broken chat stream ended with %v", stream.Err())
	}
	events := c.Responses.NewStreaming(t.Context(), answer)
	for events.Next() {
	}
	if events.Err() == nil || !strings.Contains(events.Err().Error(), "out of pages") {
		t.Errorf("a broken responses stream ended with %v", events.Err())
	}
}
