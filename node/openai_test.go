package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func openAI(base, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1/"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func chat(maxTokens int64, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "core-1.1-mini", MaxTokens: openai.Int(maxTokens), Temperature: openai.Float(0),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You are brief."), openai.UserMessage(text)},
	}
}

// reasoning is a field that the official types do not have.
func reasoning(raw string) string {
	var m struct {
		ReasoningContent string `json:"reasoning_content"`
	}
	if json.Unmarshal([]byte(raw), &m) != nil {
		return ""
	}
	return m.ReasoningContent
}

// TestOfficialChatSDK is the official client of chat completions against the
// node as it comes out of the box: plain, streamed with usage, tools.
func TestOfficialChatSDK(t *testing.T) {
	_, base, key := startNode(t, nil)
	c, ctx := openAI(base, key), t.Context()

	plain, err := c.Chat.Completions.New(ctx, chat(24, "Say hello."))
	if err != nil {
		t.Fatal(err)
	}
	choice, usage := plain.Choices[0], plain.Usage
	if !strings.HasPrefix(plain.ID, "chatcmpl-") || plain.Created == 0 || reasoning(choice.Message.RawJSON()) == "" {
		t.Errorf("plain %s", plain.RawJSON())
	}
	if usage.CompletionTokens < 1 || usage.CompletionTokens > 24 || usage.TotalTokens != usage.PromptTokens+usage.CompletionTokens ||
		usage.CompletionTokensDetails.ReasoningTokens < 1 {
		t.Errorf("usage %s", usage.RawJSON())
	}

	p := chat(24, "Say hello.")
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	var streamed openai.ChatCompletionAccumulator
	thought := ""
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	for stream.Next() {
		chunk := stream.Current()
		if !streamed.AddChunk(chunk) {
			t.Fatalf("chunk out of place: %s", chunk.RawJSON())
		}
		if len(chunk.Choices) > 0 {
			thought += reasoning(chunk.Choices[0].Delta.RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if thought != reasoning(choice.Message.RawJSON()) || streamed.Choices[0].Message.Content != choice.Message.Content {
		t.Errorf("streamed %q and %q, plain %q and %q", thought, streamed.Choices[0].Message.Content,
			reasoning(choice.Message.RawJSON()), choice.Message.Content)
	}
	if streamed.Usage.PromptTokens != usage.PromptTokens || streamed.Usage.CompletionTokens != usage.CompletionTokens {
		t.Errorf("streamed usage %+v, plain %+v", streamed.Usage, usage)
	}

	p = chat(8, "Weather in Paris?")
	p.ReasoningEffort = shared.ReasoningEffort("none")
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}})}
	p.Messages = append(p.Messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
		ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
			ID: "call_1", Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "weather", Arguments: `{"city":"Paris"}`}}}}}},
		openai.ToolMessage("Sunny.", "call_1"))
	tool, err := c.Chat.Completions.New(ctx, p)
	if err != nil || tool.Usage.CompletionTokensDetails.ReasoningTokens != 0 || reasoning(tool.Choices[0].Message.RawJSON()) != "" {
		t.Errorf("with a tool's result and without thinking: %v, %v", tool, err)
	}
}

func TestOfficialResponsesSDK(t *testing.T) {
	_, base, key := startNode(t, nil)
	c, ctx := openAI(base, key), t.Context()
	ask := responses.ResponseNewParams{Model: "core-1.1-mini", MaxOutputTokens: openai.Int(24), Temperature: openai.Float(0),
		Instructions: openai.String("You are brief."), Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("Say hello.")}}
	plain, err := c.Responses.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(plain.ID, "resp_") || plain.Usage.OutputTokens < 1 || plain.Usage.OutputTokens > 24 || len(plain.Output) == 0 {
		t.Errorf("plain %s", plain.RawJSON())
	}
	var final responses.Response
	n := int64(0)
	stream := c.Responses.NewStreaming(ctx, ask)
	for stream.Next() {
		event := stream.Current()
		if event.SequenceNumber != n {
			t.Errorf("event %d has the number %d", n, event.SequenceNumber)
		}
		n++
		if event.Type == "response.completed" || event.Type == "response.incomplete" {
			final = event.Response
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if final.OutputText() != plain.OutputText() || final.Status != plain.Status || final.Usage.TotalTokens != plain.Usage.TotalTokens {
		t.Errorf("streamed %s, plain %s", final.RawJSON(), plain.RawJSON())
	}
}

func TestTypedChatErrors(t *testing.T) {
	_, base, key := startNode(t, instantModels)
	cases := []struct {
		name, key string
		change    func(*openai.ChatCompletionNewParams)
		status    int
		code      string
	}{
		{"bad key", "sk-no", func(*openai.ChatCompletionNewParams) {}, 401, "unauthorized"},
		{"unknown model", key, func(p *openai.ChatCompletionNewParams) { p.Model = "nobody" }, 400, "model_not_found"},
		{"no messages", key, func(p *openai.ChatCompletionNewParams) { p.Messages = []openai.ChatCompletionMessageParamUnion{} }, 400, "invalid_request"},
		{"two choices", key, func(p *openai.ChatCompletionNewParams) { p.N = openai.Int(2) }, 400, "invalid_request"},
		{"too long for one body", key, func(p *openai.ChatCompletionNewParams) { p.MaxTokens = openai.Int(32769) }, 400, "invalid_request"},
		{"an image", key, func(p *openai.ChatCompletionNewParams) {
			p.Messages = append(p.Messages, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,AA=="})}))
		}, 400, "invalid_request"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := chat(8, "x")
			c.change(&p)
			client := openAI(base, c.key)
			_, err := client.Chat.Completions.New(t.Context(), p)
			e, ok := errors.AsType[*openai.Error](err)
			if !ok || e.StatusCode != c.status || e.Code != c.code || e.Message == "" || e.Response.Header.Get("X-Llm-Request-Id") == "" {
				t.Errorf("got %v, want status %d with code %s and a request id", err, c.status, c.code)
			}
		})
	}
	client := openAI(base, key)
	for _, body := range []string{`"store":true`, `"previous_response_id":"resp_1"`, `"background":true`, `"max_output_tokens":32769`} {
		var fields map[string]any
		if err := json.Unmarshal([]byte("{"+body+"}"), &fields); err != nil {
			t.Fatal(err)
		}
		p := responses.ResponseNewParams{Model: "core-1.1-mini", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("hi")}}
		p.SetExtraFields(fields)
		_, err := client.Responses.New(t.Context(), p)
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 400 || e.Code != "invalid_request" {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// schemas are the OpenAI schemas; they are not ours, so a machine without them skips.
func schemas(t *testing.T) func(name string) *jsonschema.Schema {
	t.Helper()
	shared := cmp.Or(os.Getenv("CORENODE_SHARED"), filepath.Join("..", "..", "shared"))
	text, err := os.ReadFile(filepath.Join(shared, "data", "openai.schemas.json"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("bodies are not validated against the schemas: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openai.json", document); err != nil {
		t.Fatal(err)
	}
	return func(name string) *jsonschema.Schema {
		s, err := compiler.Compile("openai.json#/$defs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestBodiesAreAsInTheSchemas validates whole answers, every chunk and every event.
func TestBodiesAreAsInTheSchemas(t *testing.T) {
	schema := schemas(t)
	_, base, key := startNode(t, nil)
	c := conversation{system: "You are brief.", turns: []turn{{role: "user", text: "Say hello."}}, tool: true, thinking: true, limit: 40}
	check := func(name string, data []byte) {
		t.Helper()
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err == nil {
			err = schema(name).Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
	check("CreateChatCompletionResponse", postJSON(t, base, key, "/v1/chat/completions", c.chatBody(false)))
	check("Response", postJSON(t, base, key, "/v1/responses", c.responsesBody(false)))
	for _, stream := range []struct {
		path, schema string
		body         object
	}{{"/v1/chat/completions", "CreateChatCompletionStreamResponse", c.chatBody(true)}, {"/v1/responses", "ResponseStreamEvent", c.responsesBody(true)}} {
		frames := 0
		for line := range bytes.Lines(postJSON(t, base, key, stream.path, stream.body)) {
			if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && string(data) != "[DONE]" {
				check(stream.schema, data)
				frames++
			}
		}
		if frames < 5 {
			t.Errorf("%s: only %d frames", stream.path, frames)
		}
	}
}

// TestOfficialInputTokens: the official client's count of a response's input is what the response then says, and
// takes no money; what cannot be a response is refused as one.
func TestOfficialInputTokens(t *testing.T) {
	_, base, key := startNode(t, nil)
	c, ctx := openAI(base, key), t.Context()
	tool := responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
		Name: "get_weather", Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
	}}
	for _, tools := range [][]responses.ToolUnionParam{nil, {tool}} {
		count, err := c.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{
			Model: openai.String("core-1.1-mini"), Instructions: openai.String("You are brief."), Tools: tools,
			Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("Say hello.")},
		})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Responses.New(ctx, responses.ResponseNewParams{
			Model: "core-1.1-mini", Instructions: openai.String("You are brief."), Tools: tools, MaxOutputTokens: openai.Int(1),
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Say hello.")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if count.Object != "response.input_tokens" || count.InputTokens == 0 || count.InputTokens != answer.Usage.InputTokens {
			t.Errorf("%s, the response says %d", count.RawJSON(), answer.Usage.InputTokens)
		}
	}
	for name, p := range map[string]responses.InputTokenCountParams{
		"previous_response_id": {Model: openai.String("core-1.1-mini"), PreviousResponseID: openai.String("resp_1"),
			Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("hi")}},
		"model": {Model: openai.String("nobody"), Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("hi")}},
	} {
		_, err := c.Responses.InputTokens.Count(ctx, p)
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 400 || e.Param != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
