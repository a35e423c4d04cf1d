package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"corenode/bench/fake"
	"corenode/engine/upstream"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/config"
	"corenode/node/trace"
	"corenode/node/trace/tracetest"
)

// traced sends one request with headers of a trace and returns its status.
func traced(t *testing.T, base, key, path, body string) int {
	t.Helper()
	header := bearer(key)
	for name, value := range map[string]string{"Tracestate": "vendor=1",
		"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "X-Session-Id": "a-session"} {
		header.Set(name, value)
	}
	r, _ := fetch(t, "POST", base+path, body, header)
	return r.StatusCode
}

// spokenOf is what spans call a node of this machine.
func spokenOf(t *testing.T, n *node) string {
	t.Helper()
	machine, err := os.Hostname()
	if err != nil {
		t.Skip("this machine has no name: ", err)
	}
	_, port, err := net.SplitHostPort(n.public.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(machine, port)
}

// spanNamed waits for the span of a name that a node made.
func spanNamed(t *testing.T, c *tracetest.Collector, name, instance string) (found tracetest.Span) {
	t.Helper()
	waitFor(t, "the span "+name+" of "+instance, func() bool {
		i := slices.IndexFunc(c.Spans(), func(s tracetest.Span) bool {
			return s.Name == name && s.Resource["service.instance.id"] == instance
		})
		if i >= 0 {
			found = c.Spans()[i]
		}
		return i >= 0
	})
	return found
}

// TestTraceThroughNodes reads back the trace of a request that a client began, through a node, the
// node that computes for it, and modules: who is whose child, when, and nothing of what was said.
func TestTraceThroughNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("two nodes with their modules and a prompt of 600 kB: 4 s, and many times that under the race detector")
	}
	c := tracetest.Start(t)
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL, "OTEL_BSP_SCHEDULE_DELAY": "20",
		"OTEL_TRACES_SAMPLER": "parentbased_always_on", "OTEL_SERVICE_NAME": "trial"} {
		t.Setenv(name, value)
	}
	back, backBase, secret := startPeer(t)
	front, base, key := startNode(t, withUpstream(t, secret, backBase))
	awaitReplicas(t, front)
	<-front.modules.Ready()
	prompt := strings.Repeat("nobody may read this. ", 30_000) // a module takes over a millisecond for it
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":8,"messages":[{"role":"user","content":%q}]}`, fastModel, prompt)
	if status := traced(t, base, key, "/v1/chat/completions", body); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	here, there := spokenOf(t, front), spokenOf(t, back)
	root := spanNamed(t, c, "POST /v1/chat/completions", here)
	far := spanNamed(t, c, "POST /v1/messages", there)
	attempt := spanNamed(t, c, "upstream attempt 1", here)
	if root.Parent != "00f067aa0ba902b7" || root.State != "vendor=1" || root.Kind != 2 || root.Flags != 0x301 || root.Failed {
		t.Errorf("the request's span is %+v", root)
	}
	if attempt.Parent != root.ID || attempt.Kind != 3 || far.Parent != attempt.ID || far.Kind != 2 || far.State != "vendor=1" {
		t.Errorf("request %s, attempt %s of %s, request there of %s", root.ID, attempt.ID, attempt.Parent, far.Parent)
	}
	for key, want := range map[string]any{"gen_ai.operation.name": "chat", "gen_ai.request.model": fastModel, "gen_ai.response.model": fastModel,
		"http.response.status_code": int64(200), "gen_ai.usage.output_tokens": int64(8), "corenode.trace.kept": "ratio"} {
		if root.Attributes[key] != want {
			t.Errorf("%s is %v, want %v", key, root.Attributes[key], want)
		}
	}
	if reasons, _ := root.Attributes["gen_ai.response.finish_reasons"].([]any); !slices.Equal(reasons, []any{"max_tokens"}) {
		t.Errorf("finish reasons %v", reasons)
	}
	if id, _ := root.Attributes["gen_ai.conversation.id"].(string); len(id) != 32 || strings.Contains(id, "session") {
		t.Errorf("conversation %q", id)
	}
	if root.Resource["service.name"] != "trial" || root.SchemaURL != trace.SchemaURL || far.Attributes["corenode.trace.kept"] != "peer" {
		t.Errorf("resource %v, schema %s, there kept for %v", root.Resource, root.SchemaURL, far.Attributes["corenode.trace.kept"])
	}
	for _, name := range []string{"prepare", "admission", "hold", "queue", "prefill", "settle"} {
		if one := spanNamed(t, c, name, here); one.Parent != root.ID || one.Began.Before(root.Began) || one.Ended.After(root.Ended) {
			t.Errorf("%s: %+v, of %+v", name, one, root)
		}
	}
	decode := spanNamed(t, c, "decode", here)
	if len(decode.Events) != 1 || decode.Events[0].Name != "first token" || decode.Events[0].At.Before(root.Began) {
		t.Errorf("decode has the events %+v", decode.Events)
	}
	module := spanNamed(t, c, "module translate", here)
	if digest, _ := module.Attributes["corenode.module.digest"].(string); module.Parent != spanNamed(t, c, "prepare", here).ID || digest == "" {
		t.Errorf("the module's span is %+v", module)
	}
	for _, s := range c.Spans() {
		text, err := json.Marshal(s)
		asked := s.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" // the front node asks for counts on its own
		if err != nil || asked && s.Resource["service.instance.id"] != there || strings.Contains(string(text), "nobody may read this") ||
			strings.Contains(string(text), key) || strings.Contains(string(text), "a-session") {
			t.Errorf("of another trace, or it says too much: %s", text)
		}
	}
}

// TestErrorsAreTraced: with a share of nothing, a failure of the node is kept, and what a client did wrong or
// what went well is not.
func TestErrorsAreTraced(t *testing.T) {
	c := tracetest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	fails := fake.New(t, flavor.VLLM, func(int, []byte) fake.Script { return fake.Script{Fault: fake.Broken500} })
	n, base, key := startNode(t, func(cfg *config.Config) {
		withElsewhere(cfg)
		failing := cfg.Models["elsewhere"]
		failing.Upstream.URLs = []string{fails.URL}
		cfg.Models["failing"] = failing
	})
	for body, want := range map[string]int{`{"model":"core-1.1-mini","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}`: 200, `{`: 400} {
		if status := traced(t, base, key, "/v1/messages", body); status != want {
			t.Errorf("%s: status %d", body, status)
		}
	}
	down := `{"model":"elsewhere","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}`
	if status := traced(t, base, key, "/v1/messages", down); status != http.StatusServiceUnavailable {
		t.Errorf("of a model that nobody answers: status %d", status)
	}
	root := spanNamed(t, c, "POST /v1/messages", spokenOf(t, n))
	if !root.Failed || root.Attributes["error.type"] != "overloaded" || root.Attributes["corenode.trace.kept"] != "error" {
		t.Errorf("%+v", root)
	}
	waitFor(t, "the count of one trace", func() bool { // which rises behind the collector's answer
		return strings.Contains(scraped(t, n), `corenode_traces_total{result="sent"} 1`+"\n")
	})
	waitFor(t, "the server that fails", func() bool {
		for _, m := range n.catalog.upstreams {
			if slices.ContainsFunc(m.Replicas(), func(r upstream.Replica) bool { return r.Ready }) {
				return true
			}
		}
		return false
	})
	body := `{"model":"failing","stream":true,"max_tokens":8,"messages":[{"role":"user","content":"hi"}]}`
	if status := traced(t, base, key, "/v1/messages", body); status < 500 {
		t.Errorf("of a model whose server fails: status %d", status)
	}
	if one := spanNamed(t, c, "upstream attempt 1", spokenOf(t, n)); !one.Failed {
		t.Errorf("%+v", one)
	}
}
