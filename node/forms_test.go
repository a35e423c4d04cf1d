package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"corenode/engine/grammar/grammartest"
)

// trip is a schema that the embedded model would hardly fill by itself.
var trip = map[string]any{
	"type": "object", "additionalProperties": false, "required": []string{"city", "days", "class"},
	"properties": map[string]any{
		"city":  map[string]any{"type": "string", "maxLength": 20},
		"days":  map[string]any{"type": "integer", "minimum": 1, "maximum": 14},
		"class": map[string]any{"enum": []string{"first", "second"}},
	},
}

// isTrip says what is wrong with a JSON text as a trip.
func isTrip(t *testing.T, text string) error {
	t.Helper()
	raw, err := json.Marshal(trip)
	if err != nil {
		t.Fatal(err)
	}
	return grammartest.Validator(t, string(raw))(text)
}

// TestFormsOverEveryProtocol asks for calls and JSON with the official clients, of a
// model that is far too small to be trusted with either.
func TestFormsOverEveryProtocol(t *testing.T) {
	_, base, key := startNode(t, nil)
	c := openAI(base, key)
	formsOverChat(t, c)
	formsOverResponses(t, c)
	formsOverMessages(t, client(base, key))
}

func formsOverChat(t *testing.T, c openai.Client) {
	ctx := t.Context()
	t.Run("chat, JSON of a schema, streamed", func(t *testing.T) {
		p := chat(400, "A trip to Rome, please.")
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "trip", Schema: trip, Strict: openai.Bool(true)}}
		var streamed openai.ChatCompletionAccumulator
		stream := c.Chat.Completions.NewStreaming(ctx, p)
		for stream.Next() {
			streamed.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		got := streamed.Choices[0]
		if err := isTrip(t, got.Message.Content); got.FinishReason != "stop" || err != nil {
			t.Errorf("%q, %s: %v", got.Message.Content, got.FinishReason, err)
		}
	})
	t.Run("chat, any JSON", func(t *testing.T) {
		p := chat(400, "Give me JSON with the key sum: 3 + 4.")
		p.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
		got, err := c.Chat.Completions.New(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Choices[0].Message.Content; got.Choices[0].FinishReason == "stop" && !json.Valid([]byte(text)) ||
			!strings.HasPrefix(text, "{") {
			t.Errorf("%q", text)
		}
	})
	tool := shared.FunctionDefinitionParam{Name: "book_trip", Description: openai.String("Book a trip."), Parameters: trip}
	t.Run("chat, a required call", func(t *testing.T) {
		p := chat(400, "Hello!")
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(tool)}
		p.ToolChoice.OfAuto = openai.String("required")
		p.ParallelToolCalls = openai.Bool(false)
		got, err := c.Chat.Completions.New(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		calls := got.Choices[0].Message.ToolCalls
		if len(calls) != 1 || got.Choices[0].FinishReason != "tool_calls" {
			t.Fatalf("%s", got.RawJSON())
		}
		if err := isTrip(t, calls[0].Function.Arguments); err != nil {
			t.Errorf("%s: %v", calls[0].Function.Arguments, err)
		}
	})
}

func formsOverResponses(t *testing.T, c openai.Client) {
	ctx := t.Context()
	t.Run("responses, JSON of a schema", func(t *testing.T) {
		got, err := c.Responses.New(ctx, responses.ResponseNewParams{Model: "core-1.1-mini", MaxOutputTokens: openai.Int(400),
			Temperature: openai.Float(0),
			Input:       responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("A trip to Rome, please.")},
			Text:        responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigParamOfJSONSchema("trip", trip)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := isTrip(t, got.OutputText()); got.Status != "completed" || got.Text.Format.Name != "trip" || err != nil {
			t.Errorf("%s: %v", got.RawJSON(), err)
		}
	})
	t.Run("responses, a named call", func(t *testing.T) {
		got, err := c.Responses.New(ctx, responses.ResponseNewParams{Model: "core-1.1-mini", MaxOutputTokens: openai.Int(400),
			Temperature: openai.Float(0),
			Input:       responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("Hello!")},
			Tools:       []responses.ToolUnionParam{responses.ToolParamOfFunction("book_trip", trip, true)},
			ToolChoice:  responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "book_trip"}}})
		if err != nil {
			t.Fatal(err)
		}
		called := false
		for _, item := range got.Output {
			if item.Type == "function_call" {
				called = true
				if err := isTrip(t, item.Arguments.OfString); err != nil {
					t.Errorf("%s: %v", item.RawJSON(), err)
				}
			}
		}
		if !called {
			t.Errorf("no call: %s", got.RawJSON())
		}
	})
}

func formsOverMessages(t *testing.T, m anthropic.Client) {
	ctx := t.Context()
	t.Run("messages, JSON of a schema", func(t *testing.T) {
		got, err := m.Messages.New(ctx, anthropic.MessageNewParams{Model: "core-1.1-mini", MaxTokens: 400, Temperature: anthropic.Float(0),
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("A trip to Rome, please."))},
			OutputConfig: anthropic.OutputConfigParam{Effort: anthropic.OutputConfigEffortLow,
				Format: anthropic.JSONOutputFormatParam{Schema: trip}}})
		if err != nil {
			t.Fatal(err)
		}
		last := got.Content[len(got.Content)-1]
		if err := isTrip(t, last.Text); got.StopReason != anthropic.StopReasonEndTurn || err != nil {
			t.Errorf("%s: %v", got.RawJSON(), err)
		}
	})
	t.Run("messages, a named call", func(t *testing.T) {
		p := anthropic.MessageNewParams{Model: "core-1.1-mini", MaxTokens: 400, Temperature: anthropic.Float(0),
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello!"))},
			Tools: []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "book_trip",
				InputSchema: anthropic.ToolInputSchemaParam{Properties: trip["properties"], Required: trip["required"].([]string)}}}},
			ToolChoice: anthropic.ToolChoiceParamOfTool("book_trip")}
		var response *http.Response
		whole, err := m.Messages.New(ctx, p, option.WithResponseInto(&response))
		if err != nil {
			t.Fatal(err)
		}
		requests := []string{response.Header.Get("X-Llm-Request-Id")}
		var streamed anthropic.Message
		stream := m.Messages.NewStreaming(ctx, p, option.WithResponseInto(&response))
		for stream.Next() {
			if err := streamed.Accumulate(stream.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, response.Header.Get("X-Llm-Request-Id"))
		ids := map[string]bool{}
		for i, got := range []*anthropic.Message{whole, &streamed} {
			last := got.Content[len(got.Content)-1]
			if err := isTrip(t, string(last.Input)); got.StopReason != anthropic.StopReasonToolUse || last.Name != "book_trip" || err != nil {
				t.Errorf("%s: %v", got.RawJSON(), err)
			}
			if !messageID.MatchString(got.ID) || !callID.MatchString(last.ID) {
				t.Errorf("the message is %q, the call %q, of request %q", got.ID, last.ID, requests[i])
			}
			for _, id := range []string{got.ID, last.ID, requests[i]} {
				_, random, _ := strings.Cut(id, "_")
				ids[random] = true
			}
		}
		if len(ids) != 6 {
			t.Errorf("two messages, two calls and two requests have these ids: %v", ids)
		}
	})
}

var messageID, callID = regexp.MustCompile(`^msg_[a-z0-9]+$`), regexp.MustCompile(`^toolu_[a-z0-9]+$`)
