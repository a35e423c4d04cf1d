package overhead

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"corenode/bench/proc"
	"corenode/bench/workload"
)

// liteConfig is of LiteLLM's proxy: one model that the mock answers, with prices, so that it
// counts tokens and money, in memory. What its database would cost is not in its numbers.
const liteConfig = `model_list:
  - model_name: %s
    litellm_params: {model: anthropic/%[1]s, api_base: %q, api_key: none, input_cost_per_token: 1.0e-7, output_cost_per_token: 1.0e-7}
general_settings: {master_key: %s}
litellm_settings: {telemetry: false}
`

// liteKey is the key that its clients send.
const liteKey = "sk-bench"

// liteReadyMax bounds its start: it imports for half a minute on a machine that has not read it before.
const liteReadyMax = 2 * time.Minute

// startLiteLLM starts LiteLLM's proxy in front of the mock at an address, with one worker, as its documents
// say for one processor.
func (m *run) startLiteLLM(ctx context.Context, upstream string) error {
	config := filepath.Join(m.dir, "litellm.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, liteConfig, workload.Model, upstream, liteKey), 0o600); err != nil {
		return err
	}
	address, err := proc.FreeAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	url := "http://" + address
	child, _, err := proc.Start(ctx, proc.Spec{Name: "litellm", Path: m.o.LiteLLM, Dir: m.dir, Timeout: liteReadyMax,
		Args:   []string{"--config", config, "--host", host, "--port", port, "--num_workers", "1"},
		Env:    []string{"LITELLM_LOG=ERROR"},
		Health: url + "/health/liveliness"})
	if err != nil {
		return err
	}
	m.servers[LiteLLM] = &server{child: child, url: url, key: liteKey}
	return nil
}
