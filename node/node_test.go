package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"corenode/engine/embedded"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
	"corenode/node/config"
)

// start opens a node and serves.
func start(cfg *config.Config, logTo io.Writer) (*node, error) {
	return startWith(cfg, logTo, standIns{})
}

// storeWait is how long the store of a test may take for rows: the spill journal has none of them then, and a
// test reads what was told.
const storeWait = time.Minute

func startWith(cfg *config.Config, logTo io.Writer, with standIns) (*node, error) {
	log, _, err := newLogger(cfg, logTo)
	if err != nil {
		return nil, err
	}
	with.slow = cmp.Or(with.slow, storeWait)
	n, err := openWith(cfg, log, nil, with)
	if err != nil {
		return nil, err
	}
	n.begin()
	return n, nil
}

// startNode runs a whole node on loopback with the configuration of a
// newcomer, changed by change.
func startNode(t testing.TB, change func(*config.Config)) (n *node, base, key string) {
	t.Helper()
	return startNodeWith(t, standIns{}, change)
}

func startNodeWith(t testing.TB, with standIns, change func(*config.Config)) (n *node, base, key string) {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", filepath.Join(t.TempDir(), "data"), moduleCache
	if change != nil {
		change(cfg)
	}
	n, err := startWith(cfg, io.Discard, with)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	secret, err := os.ReadFile(n.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return n, "http://" + n.public.Addr().String(), strings.TrimSpace(string(secret))
}

func instantModels(cfg *config.Config) {
	for id, m := range cfg.Models {
		m.Engine = config.EngineInstant
		cfg.Models[id] = m
	}
}

func client(base, key string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func ask(maxTokens int64, text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "core-1.1-mini", MaxTokens: maxTokens, Temperature: anthropic.Float(0), // the same noise each time
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

// TestOfficialSDK is the official client of the protocol against the node as
// it comes out of the box.
func TestOfficialSDK(t *testing.T) {
	_, base, key := startNode(t, nil)
	c, ctx := client(base, key), t.Context()

	var streamed anthropic.Message
	stream := c.Messages.NewStreaming(ctx, ask(24, "Say hello."))
	for stream.Next() {
		if err := streamed.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if n := streamed.Usage.OutputTokens; n < 1 || n > 24 || streamed.Content[0].Type != "thinking" || streamed.Content[0].Signature == "" {
		t.Errorf("streamed %+v", streamed)
	}
	if streamed.StopReason == "max_tokens" && streamed.Usage.OutputTokens != 24 {
		t.Errorf("cut at max_tokens with %d tokens", streamed.Usage.OutputTokens)
	}

	count, err := c.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: "core-1.1-mini", Messages: ask(1, "Say hello.").Messages})
	if err != nil {
		t.Fatal(err)
	}
	if got := streamed.Usage.InputTokens + streamed.Usage.CacheReadInputTokens; got != count.InputTokens {
		t.Errorf("count_tokens says %d, the request reported %d", count.InputTokens, got)
	}

	off := anthropic.NewThinkingConfigDisabledParam()
	plain := ask(8, "Say hello.")
	plain.Thinking = anthropic.ThinkingConfigParamUnion{OfDisabled: &off}
	answer, err := c.Messages.New(ctx, plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range answer.Content {
		if b.Type != "text" {
			t.Errorf("a %s block with thinking disabled", b.Type)
		}
	}

	models, err := c.Models.List(ctx, anthropic.ModelListParams{})
	if err != nil || len(models.Data) != 2 {
		t.Errorf("models %+v, %v", models, err)
	}
}

func TestTypedErrors(t *testing.T) {
	_, base, key := startNode(t, instantModels)
	cases := []struct {
		name, key string
		change    func(*anthropic.MessageNewParams)
		status    int
		says      string
	}{
		{"bad key", "sk-no", func(*anthropic.MessageNewParams) {}, 401, "authentication_error"},
		{"unknown model", key, func(p *anthropic.MessageNewParams) { p.Model = "nobody" }, 404, "not_found_error"},
		{"no messages", key, func(p *anthropic.MessageNewParams) { p.Messages = []anthropic.MessageParam{} }, 400, "invalid_request_error"},
		{"temperature", key, func(p *anthropic.MessageNewParams) { p.Temperature = anthropic.Float(-1) }, 400, "temperature"},
		{"forced tool", key, func(p *anthropic.MessageNewParams) {
			p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
		}, 400, "needs tools"},
		{"context", key, func(p *anthropic.MessageNewParams) { // no vocabulary merges the bytes of this character: four tokens each
			p.Messages[0] = anthropic.NewUserMessage(anthropic.NewTextBlock(strings.Repeat("\U000E0001", 70000)))
		}, 400, "262144"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := ask(8, "x")
			c.change(&p)
			cl := client(base, c.key)
			_, err := cl.Messages.New(t.Context(), p)
			e, ok := errors.AsType[*anthropic.Error](err)
			if !ok || e.StatusCode != c.status || !strings.Contains(e.RawJSON(), c.says) || e.RequestID == "" {
				t.Errorf("got %v, want status %d with %q and a request id", err, c.status, c.says)
			}
		})
	}
}

// endlessModel is the embedded model with a vocabulary whose stop tokens are out of
// reach, so that an answer goes on until somebody ends it. All tests share the file.
func endlessModel(t testing.TB) string {
	t.Helper()
	path, err := writeEndless()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var writeEndless = sync.OnceValues(func() (path string, err error) {
	f, err := modelfile.OpenBytes("embedded", embedded.Model("core-1.1"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	tokens, errTokens := f.Strings("tokenizer.ggml.tokens")
	kinds, err := f.Ints("tokenizer.ggml.token_type")
	if err := errors.Join(errTokens, err); err != nil {
		return "", err
	}
	types := make([]int32, len(kinds))
	for i, k := range kinds {
		types[i] = int32(k)
	}
	const unused = 5
	types[slices.Index(tokens, "<|im_end|>")], types[slices.Index(tokens, "<|endoftext|>")] = unused, unused
	var meta []gguftest.KV
	for _, v := range f.Keys() {
		switch v.Key {
		case "general.alignment":
		case "tokenizer.ggml.token_type":
			meta = append(meta, gguftest.KV{Key: v.Key, Value: types})
		case "tokenizer.chat_template":
			meta = append(meta, gguftest.KV{Key: v.Key, Value: "{% for m in messages %}{{ m.content }}{% endfor %}"})
		default:
			meta = append(meta, gguftest.KV{Key: v.Key, Value: v})
		}
	}
	path = filepath.Join(sharedFiles, "endless.gguf")
	return path, os.WriteFile(path, gguftest.Bytes(meta, f.Tensors()), 0o600)
})

// post sends a raw request that the caller may abandon.
func post(ctx context.Context, base, key, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("x-api-key", key)
	req.Header.Set("content-type", "application/json")
	return http.DefaultClient.Do(req)
}

// waitFor polls a condition; the bound is far above what is promised, since
// this may run on a machine that is busy.
func waitFor(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	from := time.Now()
	for time.Since(from) < time.Minute {
		if ok() {
			return time.Since(from)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s: not within a minute", what)
	return 0
}

// TestVanishedClientFreesItsPlace abandons a request in the queue, in prefill
// and in decode, streaming and not. Afterwards no permit, no slot and no hold
// is left, and the log says how long it took.
func TestVanishedClientFreesItsPlace(t *testing.T) {
	n, base, key := startNode(t, func(cfg *config.Config) {
		m := cfg.Models["core-1.1"]
		m.Batch.SequencesMax, m.Path, m.ContextLength = 1, endlessModel(t), 262144
		m.Engine, m.StepTime = config.EngineInstant, stepTime
		cfg.Models["core-1.1"] = m
	})
	engine := n.catalog.engines["core-1.1"]
	long := strings.Repeat("the server reads a request and splits it into tokens. ", 4000)
	request := func(stream, prompt string, maxTokens string) string {
		return `{"model":"core-1.1","stream":` + stream + `,"max_tokens":` + maxTokens + `,"messages":[{"role":"user","content":"` + prompt + `"}]}`
	}
	running := func() (int, int) {
		s := engine.Stats().Scheduler
		return s.Running, s.Waiting
	}
	idle := func() bool {
		r, w := running()
		s := n.tree.Inspect()
		return r == 0 && w == 0 && s.Requests == 0
	}
	abandon := func(t *testing.T, body string, phase func() bool) { abandonIn(t, base, key, body, phase) }
	decoding := func() bool {
		s := engine.Stats().Scheduler
		return s.Running == 1 && s.DecodeTokens > 0
	}
	prefilling := func() bool { return engine.Stats().Scheduler.Running == 1 }
	for _, stream := range []string{"true", "false"} {
		t.Run("prefill, stream "+stream, func(t *testing.T) {
			abandon(t, request(stream, long, "20000"), prefilling)
			t.Logf("free after %v", waitFor(t, "its place", idle))
		})
		t.Run("decode, stream "+stream, func(t *testing.T) {
			abandon(t, request(stream, "x", "30000"), decoding)
			t.Logf("free after %v", waitFor(t, "its place", idle))
		})
		t.Run("queue, stream "+stream, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				if r, err := post(ctx, base, key, request("true", long, "30000")); err == nil {
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
			}()
			waitFor(t, "the one in front", prefilling)
			abandon(t, request(stream, "y", "100"), func() bool { _, w := running(); return w == 1 })
			t.Logf("free after %v", waitFor(t, "its place", func() bool { _, w := running(); return w == 0 && n.tree.Inspect().Requests == 1 }))
			cancel()
			waitFor(t, "the one in front gone", idle)
		})
	}
	holds, err := n.store.OpenHolds()
	if err != nil || len(holds) != 0 {
		t.Errorf("%d holds are open, %v", len(holds), err)
	}
}

// abandonIn sends a request and leaves when it is in a phase.
func abandonIn(t *testing.T, base, key, body string, phase func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := post(ctx, base, key, body); err == nil {
			io.Copy(io.Discard, r.Body) // ends with the client
			r.Body.Close()
		}
	}()
	waitFor(t, "the phase", phase)
	cancel()
	<-done
}

// TestSecondTurnReadsTheCache goes over HTTP, with and without a session id.
func TestSecondTurnReadsTheCache(t *testing.T) {
	_, base, key := startNode(t, nil)
	c := client(base, key)
	for _, session := range []string{"", "conversation-1"} {
		var opts []option.RequestOption
		if session != "" {
			opts = append(opts, option.WithHeader("X-Session-Id", session))
		}
		first := ask(8, session+strings.Repeat("all the users of the server share one pass over the weights. ", 40))
		a, err := c.Messages.New(t.Context(), first, opts...)
		if err != nil {
			t.Fatal(err)
		}
		second := first
		second.Messages = append(second.Messages, a.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("go on")))
		b, err := c.Messages.New(t.Context(), second, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if b.Usage.CacheReadInputTokens < a.Usage.InputTokens*9/10 {
			t.Errorf("session %q: turn 2 read %d cached tokens after a first turn of %d", session, b.Usage.CacheReadInputTokens, a.Usage.InputTokens)
		}
	}
}
