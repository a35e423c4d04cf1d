package peer

import (
	"slices"
	"strings"
)

// scenario is one load that all servers get.
type scenario struct {
	name     string // for --only
	clients  int
	requests int // conversations in all
	system   int // tokens of the system prompt, 0 for none
	input    int // tokens of a turn's own prompt
	output   int // tokens of an answer
	turns    int
	busy     bool // programs that do nothing but compute run beside the server, one per processor
	rows     []row
}

// row is one number of a scenario.
type row struct {
	what   string
	unit   string
	metric metric
	lower  bool // less is better
	gates  []gate
	// nodeMax bounds the node's own number where there is nothing to compare it with; 0 is no bound.
	nodeMax float64
}

// gate is how many times better than a peer the node must and should be.
type gate struct {
	peer       string
	kind       string // the weights' type, "" for any
	level      string // of the node's kernels
	least, aim float64
}

// metric is what a row shows of one run of a scenario, by its name in a file of rounds.
type metric string

const (
	prefillRate metric = "prefill_tokens_per_s" // computed prompt tokens / TTFT, median
	decodeRate  metric = "decode_tokens_per_s"  // streams at once / median TPOT
	outputRate  metric = "output_tokens_per_s"  // output tokens / wall time
	ttftMedian  metric = "ttft_median_ms"
	ttftLast    metric = "ttft_last_ms"
	ttftTurn2   metric = "ttft_turn2_ms" // median of second turns
	resident    metric = "resident_mib"  // after the scenario
	beyond      metric = "beyond_mib"    // of it, what is neither the model file's nor the cache's; only the node says
)

// gateFor is the gate of a row in a setting beside a peer; the zero gate is none.
func (r row) gateFor(peer string, s Setting) gate {
	for _, g := range r.gates {
		if g.peer == peer && (g.kind == "" || g.kind == s.Type) && g.level == s.Level {
			return g
		}
	}
	return gate{}
}

// The peers as gates name them, and the two levels that have gates.
const (
	llama, ik, openVINO = "llama-server", "ik_llama.cpp", "OpenVINO GenAI"
	native, avx2        = "native", "avx2"
)

// scenarios are what a run asks, in this order. The gates are those of the
// project's plan for the shape of a 0.6B model on two processors.
var scenarios = []scenario{
	{name: "prefill", clients: 1, requests: 3, input: 512, output: 2, turns: 1, rows: []row{
		{what: "prefill of 512 tokens", unit: "tokens/s", metric: prefillRate, gates: []gate{
			{llama, "Q8_0", native, 3, 5}, {llama, "Q4_0", native, 2, 3}, {llama, "Q4_K", native, 2, 3},
			{openVINO, "Q8_0", native, 1.3, 1.6}}},
	}},
	{name: "decode", clients: 1, requests: 2, input: 32, output: 64, turns: 1, rows: []row{
		{what: "decode, 1 stream", unit: "tokens/s", metric: decodeRate, gates: []gate{
			{llama, "Q4_0", native, 1.2, 1.4}, {ik, "", avx2, 1, 1.1}, {ik, "", native, 1.1, 1.2}}},
	}},
	{name: "deep", clients: 1, requests: 1, input: 2048, output: 32, turns: 1, rows: []row{
		{what: "prefill of 2,048 tokens", unit: "tokens/s", metric: prefillRate, gates: []gate{{openVINO, "Q8_0", native, 1.3, 1.6}}},
		{what: "decode after 2,048 tokens", unit: "tokens/s", metric: decodeRate, gates: []gate{{llama, "Q4_0", native, 3, 4}}},
	}},
	{name: "batch8", clients: 8, requests: 8, input: 32, output: 48, turns: 1, rows: []row{
		{what: "decode, 8 streams", unit: "tokens/s", metric: decodeRate, gates: []gate{{llama, "Q8_0", native, 3, 5}}},
	}},
	{name: "batch16", clients: 16, requests: 16, input: 32, output: 32, turns: 1, rows: []row{
		{what: "decode, 16 streams", unit: "tokens/s", metric: decodeRate, gates: []gate{{llama, "Q8_0", native, 3, 5}}},
	}},
	{name: "server", clients: 8, requests: 8, input: 251, output: 64, turns: 1, rows: []row{
		{what: "8 clients, 251 in, 64 out", unit: "tokens/s", metric: outputRate, gates: []gate{
			{llama, "", native, 3, 4}, {openVINO, "", native, 1.3, 1.6}}},
		{what: "their first token, median", unit: "ms", metric: ttftMedian, lower: true, gates: []gate{{llama, "", native, 4, 0}}},
		{what: "their first token, last client", unit: "ms", metric: ttftLast, lower: true, gates: []gate{
			{llama, "", native, 2, 0}, {openVINO, "", native, 1, 1.3}}},
	}},
	{name: "turns", clients: 1, requests: 1, system: 2000, input: 32, output: 32, turns: 2, rows: []row{
		{what: "first token of turn 2 after 2,000 tokens", unit: "ms", metric: ttftTurn2, lower: true,
			gates: []gate{{llama, "", native, 4, 8}}},
	}},
	{name: "memory", clients: 8, requests: 8, input: 2048, output: 4, turns: 1, rows: []row{
		{what: "resident after 8 clients at 2,048 tokens", unit: "MiB", metric: resident, lower: true},
		{what: "the same beyond weights and KV cache", unit: "MiB", metric: beyond, lower: true, nodeMax: 150},
	}},
	{name: "busy", clients: 1, requests: 1, input: 32, output: 48, turns: 1, busy: true, rows: []row{
		{what: "decode beside a busy program on each processor", unit: "tokens/s", metric: decodeRate},
	}},
}

func known(name string) bool {
	return slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name })
}

func names() string {
	var all []string
	for _, s := range scenarios {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}
