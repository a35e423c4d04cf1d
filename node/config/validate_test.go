package config

import (
	"strings"
	"testing"
)

// TestValuesThatAreRefused: each is one mistake, and the only problem that is reported.
func TestValuesThatAreRefused(t *testing.T) {
	const cluster = "store: {url: postgres://u@h/d}\ncluster: "
	model := func(text string) string { return "models: {core-1.1: {" + text + "}}" }
	upstream := func(text, servers string) string {
		return model("engine: upstream, " + text + ", upstream: {flavour: vllm, urls: [http://h]" + servers + "}")
	}
	limits := func(text string) string { return "limits: {" + text + "}" }
	for text, want := range map[string]string{
		"models: {}":            "models is empty, want at least one model",
		"cache: {keep: 1}":      "cache.keep is 1, want",
		"cache: {keep: 17TiB}":  "cache.keep is",
		`listen: "127.0.0.1:"`:  `listen is "127.0.0.1:", want host:port`,
		"listen: 127.0.0.1:1e6": `listen is "127.0.0.1:1e6", want host:port`,

		"server: {tls_certificate: a}":                               "server.tls_key is empty",
		"server: {tls_key: a}":                                       "server.tls_certificate is empty",
		"server: {peer_keys: [sk-secret]}":                           "server.peer_keys.0 is no id of a key",
		"admin: {tls_certificate: a}":                                "admin.tls_key is empty",
		"admin: {tls_key: a}":                                        "admin.tls_certificate is empty",
		"admin: {operators: [ann]}":                                  "admin.operators has mistakes",
		"admin: {listen: 0.0.0.0:9}":                                 "which other machines can reach, unencrypted: want",
		"admin: {listen: 0.0.0.0:9, tls_key: b, tls_certificate: a}": "which other machines can reach: want",

		"ledger: {spill_bytes: 1023KiB}":                                             "ledger.spill_bytes is 1047552, want 1048576 to",
		"store: {url: mysql://u@h/d}":                                                "store.url is no URL of PostgreSQL",
		"store: {password_file: a}":                                                  "store.password_file is set, but store.url is not",
		"cluster: {address: a:1}":                                                    "cluster.address is set, but no model is shared",
		"cluster: {share_models: true}":                                              "cluster.share_models is set, but store.url is not",
		cluster + "{share_models: [nosuch]}":                                         `cluster.share_models has "nosuch", which is no model`,
		cluster + "{share_models: true, listen: a}":                                  `cluster.listen is "a", want host:port`,
		cluster + "{share_models: true, address: a}":                                 `cluster.address is "a", want host:port`,
		cluster + `{share_models: true, listen: ":1"}`:                               `cluster.listen is ":1", which is no address that other nodes can reach`,
		cluster + `{share_models: true, listen: "0.0.0.0:1"}`:                        `cluster.listen is "0.0.0.0:1", which is no address`,
		cluster + "{share_models: [core-1.1]}\n" + upstream("context_length: 9", ""): `cluster.share_models has "core-1.1", which servers elsewhere answer`,

		limits("connections_max: 0"):                           "limits.connections_max is 0, want 1 to",
		limits("header_bytes_max: 4095"):                       "limits.header_bytes_max is 4095, want 4096 to",
		limits("body_bytes_max: 1023"):                         "limits.body_bytes_max is 1023, want 1024 to",
		limits("body_bytes_max: 2000, body_bytes_total: 1999"): "limits.body_bytes_total is 1999, want 2000 to",
		limits("prepare_concurrency: 4097"):                    "limits.prepare_concurrency is 4097, want 1 to 4096",
		limits("queue_requests_max: 0"):                        "limits.queue_requests_max is 0, want 1 to",
		limits("queue_tokens_max: 0"):                          "limits.queue_tokens_max is 0, want 1 to",
		limits("sessions_per_account: 0"):                      "limits.sessions_per_account is 0, want 1 to",
		limits("pinned_bytes_per_account: 1025TiB"):            "limits.pinned_bytes_per_account is",
		limits("keepalive: 25h"):                               "limits.keepalive is 25h0m0s, want 1ms to 24h",
		limits("drain_delay: 25h"):                             "limits.drain_delay is 25h0m0s, want 0s to 24h",
		limits("drain_delay: -1ms"):                            "limits.drain_delay is -1ms, want 0s to 24h",
		"modules: {canary_factor: 1}":                          "modules.canary_factor is 1, want 1.1 to",

		model("context_length: -1"):                                                "models.core-1.1.context_length is -1, want 0 to",
		model("output_max: -1"):                                                    "models.core-1.1.output_max is -1, want 0 to",
		model("template_date: 2026-02-30"):                                         `models.core-1.1.template_date is "2026-02-30", want a day`,
		model("engine: instant, step_time: 1001ms"):                                "models.core-1.1.step_time is 1.001s, want 0s to 1s",
		model("sampling: {temperature: 100.5}"):                                    "models.core-1.1.sampling.temperature is 100.5, want 0 to 100",
		model("sampling: {top_p: 0}"):                                              "models.core-1.1.sampling.top_p is 0, want",
		model("sampling: {min_p: 1.5}"):                                            "models.core-1.1.sampling.min_p is 1.5, want 0 to 1",
		model("sampling: {presence_penalty: -2.5}"):                                "models.core-1.1.sampling.presence_penalty is -2.5, want -2 to 2",
		model("sampling: {top_k: -1}"):                                             "models.core-1.1.sampling.top_k is -1, want 0 to",
		model("kv: {page_tokens: 48}"):                                             "models.core-1.1.kv.page_tokens is 48, want 16, 32 or 64",
		model("kv: {memory_bytes: 1}"):                                             "models.core-1.1.kv.memory_bytes is 1, want",
		model("kv: {state_memory_bytes: 33TiB}"):                                   "models.core-1.1.kv.state_memory_bytes is",
		model("kv: {host_state_memory_bytes: 1MiB}"):                               "models.core-1.1.kv.host_state_memory_bytes is 1048576, but the engine is cpu",
		model("batch: {step_tokens_max: 8193}"):                                    "models.core-1.1.batch.step_tokens_max is 8193, want 128 to 8192",
		model("batch: {step_tokens_max: 128, sequences_max: 65, chunk_tokens: 0}"): "models.core-1.1.batch.sequences_max is 65, want 1 to",
		upstream("context_length: 9, path: a", ""):                                 `models.core-1.1.path is set, but the engine is upstream`,
		upstream("context_length: 0", ""):                                          "models.core-1.1.context_length is 0, want 1 to",
		upstream("context_length: 9", ", connections_max: 0"):                      "upstream.connections_max is 0, want 1 to",
	} {
		_, _, problems := build([]byte(text), Sources{})
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
}

// TestValuesAtTheirBounds are none of them refused.
func TestValuesAtTheirBounds(t *testing.T) {
	for _, text := range []string{`
limits: {connections_max: 1, header_bytes_max: 4096, body_bytes_max: 1KiB, body_bytes_total: 1KiB, prepare_concurrency: 1,
  queue_requests_max: 1, queue_tokens_max: 1, sessions_per_account: 1, pinned_bytes_per_account: 0, keepalive: 1ms,
  slow_reader_pause: 1s, slow_reader_cancel: 1s}
cache: {keep: 0}
admin: {listen: localhost:9}
ledger: {spill_bytes: 1MiB}
modules: {instances_max: 0, cpu_share: 0.01, canary_factor: 1.1, canary_calls_min: 10}
models:
  core-1.1:
    sampling: {temperature: 0, top_p: 0.000000001, min_p: 0, presence_penalty: -2, top_k: 0}
    kv: {memory_bytes: 1MiB, page_tokens: 16}
    batch: {step_tokens_max: 128, sequences_max: 64, chunk_tokens: 128, gap_max: 1ms, gap_stretch_max: 0}
`, `
limits: {connections_max: 1000000, header_bytes_max: 1MiB, body_bytes_max: 1GiB, body_bytes_total: 1TiB, prepare_concurrency: 4096,
  queue_requests_max: 1000000, queue_tokens_max: 1099511627776, sessions_per_account: 1000000, pinned_bytes_per_account: 1024TiB,
  keepalive: 24h}
cache: {keep: 16TiB}
ledger: {spill_bytes: 64GiB}
modules: {instances_max: 1024, cpu_share: 1, canary_factor: 1000000, canary_calls_min: 100000}
models:
  core-1.1:
    engine: instant
    step_time: 1s
    context_length: 16777216
    output_max: 16777216
    threads: 1024
    sampling: {temperature: 100, top_p: 1, min_p: 1, presence_penalty: 2, top_k: 1048576}
    kv: {memory_bytes: 32TiB, state_memory_bytes: 32TiB, page_tokens: 64}
    batch: {step_tokens_max: 8192, sequences_max: 8128, chunk_tokens: 8192, gap_max: 1h, gap_stretch_max: 1000}
`} {
		if _, _, problems := build([]byte(text), Sources{}); len(problems) > 0 {
			t.Errorf("%v", problems)
		}
	}
}
