package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/bench/fake"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/config"
)

// publicMetrics asks the public listener for its metrics, without a key.
func publicMetrics(t *testing.T, base string) (status int, page string) {
	t.Helper()
	r, err := http.Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := r.Header.Get("Content-Type"); r.StatusCode == 200 && !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("content type %q", kind)
	}
	return r.StatusCode, string(body)
}

// loadLine is all that the page may hold.
var loadLine = regexp.MustCompile(`^(?:# TYPE vllm:[a-z_]+ gauge` +
	`|vllm:(?:num_requests_(?:waiting|running)|kv_cache_usage_perc)\{model_name="[^"]+"\} [0-9.e+-]+` +
	`|vllm:cache_config_info\{model_name="[^"]+",block_size="32",num_gpu_blocks="[1-9][0-9]*"\} 1)$`)

// TestInferenceMetrics: gateways see requests run and wait, the cache fill and empty, of engines
// of this node and of servers elsewhere, and nothing else.
func TestInferenceMetrics(t *testing.T) {
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	server := fake.New(t, flavor.VLLM, func(int, []byte) fake.Script {
		<-release
		return fake.Script{Text: []string{"yes"}}
	})
	n, base, key := startNode(t, func(cfg *config.Config) {
		cfg.Server.InferenceMetrics = true
		m := cfg.Models[slowModel]
		m.Batch.SequencesMax, m.Path, m.ContextLength = 1, endlessModel(t), 262144
		m.Engine, m.StepTime = config.EngineInstant, stepTime
		cfg.Models[slowModel] = m
		withFake(cfg, fastModel, flavor.VLLM, server)
	})
	is := func(name, model string, ok func(float64) bool) {
		t.Helper()
		line := name + `{model_name="` + model + `"} `
		waitFor(t, line, func() bool {
			_, page := publicMetrics(t, base)
			_, rest, found := strings.Cut(page, line)
			value, _, _ := strings.Cut(rest, "\n")
			v, err := strconv.ParseFloat(value, 64)
			return found && err == nil && ok(v)
		})
	}
	zero, one := func(v float64) bool { return v == 0 }, func(v float64) bool { return v == 1 }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	send := func(model string) {
		r, err := post(ctx, base, key,
			`{"model":"`+model+`","stream":true,"max_tokens":30000,"messages":[{"role":"user","content":"x"}]}`)
		if err == nil {
			io.Copy(io.Discard, r.Body) // ends with the client
			r.Body.Close()
		}
	}
	awaitReplicas(t, n)
	is("vllm:kv_cache_usage_perc", slowModel, zero)
	go send(slowModel)
	is("vllm:num_requests_running", slowModel, one)
	is("vllm:kv_cache_usage_perc", slowModel, func(v float64) bool { return v > 0 && v <= 1 })
	go send(slowModel)
	is("vllm:num_requests_waiting", slowModel, one)
	go send(fastModel)
	is("vllm:num_requests_running", fastModel, one)
	free()
	is("vllm:num_requests_running", fastModel, zero)
	is("vllm:num_requests_waiting", fastModel, zero)
	status, page := publicMetrics(t, base)
	if status != 200 || !strings.Contains(page, `vllm:cache_config_info{model_name="`+slowModel) {
		t.Errorf("%d: %s", status, page)
	}
	for line := range strings.Lines(page) {
		if !loadLine.MatchString(strings.TrimSuffix(line, "\n")) {
			t.Errorf("the page shows %q", line)
		}
	}
	cancel()
	for _, name := range loadSeries {
		is(name, slowModel, zero)
	}
}

// TestInferenceMetricsOff: without the option the path is unknown.
func TestInferenceMetricsOff(t *testing.T) {
	_, base, _ := startNode(t, instantModels)
	if status, page := publicMetrics(t, base); status != 404 || strings.Contains(page, "vllm") {
		t.Errorf("%d: %s", status, page)
	}
}
