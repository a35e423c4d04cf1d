package peer

import (
	"cmp"
	"slices"
	"strings"
)

// scenario is one load that both servers get.
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
	// gate and aim are how many times better than the peer the node must and
	// should be, by the weights' type; 0 is none. "" is any type that is not named.
	gate, aim map[string]float64
	// nodeMax bounds the node's own number where there is nothing to compare it with; 0 is no bound.
	nodeMax float64
}

// metric is what a row shows of one run of a scenario.
type metric int

const (
	prefillRate metric = iota // prompt tokens / median TTFT
	decodeRate                // streams at once / median TPOT
	outputRate                // output tokens / wall time
	ttftMedian                // ms
	ttftLast                  // ms
	ttftTurn2                 // ms, median of second turns
	resident                  // MiB after the scenario
	beyond                    // MiB of it that are neither the model file's nor the cache's; only the node says
)

func all(x float64) map[string]float64 { return map[string]float64{"": x} }

// pick is the value for a type.
func pick(m map[string]float64, kind string) float64 {
	return cmp.Or(m[kind], m[""])
}

// scenarios are what a run asks, in this order. The gates are those of the
// project's plan for the shape of a 0.6B model on two processors.
var scenarios = []scenario{
	{name: "prefill", clients: 1, requests: 3, input: 512, output: 2, turns: 1, rows: []row{
		{what: "prefill of 512 tokens", unit: "tokens/s", metric: prefillRate,
			gate: map[string]float64{"Q8_0": 3, "Q4_0": 2, "Q4_K": 2}, aim: map[string]float64{"Q8_0": 5, "Q4_0": 3, "Q4_K": 3}},
	}},
	{name: "decode", clients: 1, requests: 2, input: 32, output: 64, turns: 1, rows: []row{
		{what: "decode, 1 stream", unit: "tokens/s", metric: decodeRate},
	}},
	{name: "deep", clients: 1, requests: 1, input: 2048, output: 32, turns: 1, rows: []row{
		{what: "decode after 2,048 tokens", unit: "tokens/s", metric: decodeRate, gate: map[string]float64{"Q4_0": 3},
			aim: map[string]float64{"Q4_0": 4}},
	}},
	{name: "batch8", clients: 8, requests: 8, input: 32, output: 48, turns: 1, rows: []row{
		{what: "decode, 8 streams", unit: "tokens/s", metric: decodeRate, gate: map[string]float64{"Q8_0": 3},
			aim: map[string]float64{"Q8_0": 5}},
	}},
	{name: "batch16", clients: 16, requests: 16, input: 32, output: 32, turns: 1, rows: []row{
		{what: "decode, 16 streams", unit: "tokens/s", metric: decodeRate, gate: map[string]float64{"Q8_0": 3},
			aim: map[string]float64{"Q8_0": 5}},
	}},
	{name: "server", clients: 8, requests: 8, input: 251, output: 64, turns: 1, rows: []row{
		{what: "8 clients, 251 in, 64 out", unit: "tokens/s", metric: outputRate, gate: all(2.5), aim: all(4)},
		{what: "their first token, median", unit: "ms", metric: ttftMedian, lower: true, gate: all(4)},
		{what: "their first token, last client", unit: "ms", metric: ttftLast, lower: true, gate: all(2)},
	}},
	{name: "turns", clients: 1, requests: 1, system: 2000, input: 32, output: 32, turns: 2, rows: []row{
		{what: "first token of turn 2 after 2,000 tokens", unit: "ms", metric: ttftTurn2, lower: true, gate: all(4), aim: all(8)},
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
