package kernels

import (
	"corenode/bench/engine"
	"corenode/bench/proc"
	"corenode/bench/report"
)

// measured is one part in one round.
type measured struct {
	seconds float64 // all steps
	memory  float64 // GB/s, mean of before and after
	foreign float64 // share of the machine that others used, by proc.Between
}

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.kernels/1"

// Report is the result of one run. METHOD.md documents its JSON.
type Report struct {
	Schema  string         `json:"schema"`
	Host    proc.Host      `json:"host"`
	Options Options        `json:"options"`
	Level   string         `json:"level"` // of the kernels
	Weights engine.Weights `json:"weights"`
	// RealTime says that the run was under SCHED_FIFO.
	RealTime     bool   `json:"real_time"`
	Rows         []Row  `json:"rows"`
	Around       Around `json:"around"`
	report.Gates `json:"gates"`
}

// Row is one part over the rounds that count.
type Row struct {
	Name    string `json:"name"`
	Batch   int    `json:"batch"`
	Context int    `json:"context_tokens"`
	Rows    int    `json:"rows_per_step"`
	// Rounds were run, Discarded of them thrown out because others used more
	// than 5 % of the machine; Disturbed says that all were, and all count.
	report.RowRounds
	TokensPerS report.Spread `json:"tokens_per_s"`
	MemoryGBs  report.Spread `json:"memory_gb_per_s"`
	// GBs is what each step must read, its weights and the cached K and V, times
	// steps per second. Share is that beside the memory's bandwidth, within a
	// round; more than 1 says that weights were found in a cache.
	GBs   report.Spread `json:"gb_per_s"`
	Share report.Spread `json:"share"`
}

// Around is what stands before and after the forward pass, on one thread.
type Around struct {
	TokenizerMBs float64 `json:"tokenizer_mb_per_s"`
	SamplerUS    float64 `json:"sampler_us"`
	Foreign      float64 `json:"foreign"` // share of the machine that others used meanwhile
}

// fill makes the rows of what was measured, by part and round.
func (r *Report) fill(parts []part, all [][]measured, bytesPerPosition int64) {
	for i, p := range parts {
		r.Rows = append(r.Rows, rowOf(p, all[i], r.Weights.BytesPerToken, bytesPerPosition))
	}
	r.Gates = report.Gates{report.AtLeast(r.Rows[0].Name+": bytes read / memory read bandwidth",
		r.Rows[0].Share.Median, r.Options.MinShare)}
}

// rowOf leaves out disturbed rounds, unless all are.
func rowOf(p part, all []measured, weights, position int64) Row {
	kept, rounds := report.Quiet(all, func(m measured) float64 { return m.foreign })
	steps := func(m measured) float64 { return report.Ratio(float64(p.steps), m.seconds) }
	read := func(m measured) float64 { return steps(m) * float64(p.bytes(weights, position)) / 1e9 }
	return Row{Name: p.name, Batch: p.batch, Context: p.context, Rows: p.rows, RowRounds: rounds.Row(),
		TokensPerS: report.SpreadBy(kept, func(m measured) float64 { return steps(m) * float64(p.batch*p.rows) }),
		MemoryGBs:  report.SpreadBy(kept, func(m measured) float64 { return m.memory }),
		GBs:        report.SpreadBy(kept, read),
		Share:      report.SpreadBy(kept, func(m measured) float64 { return report.Ratio(read(m), m.memory) })}
}

// bytes is what a step reads at least: the weights once, and the cached K and V
// of every sequence, in the middle of the part. Of experts it counts those of
// one token, so a batch of a mixture reads more.
func (p part) bytes(weights, position int64) int64 {
	middle := int64(p.position(p.steps/2)) + int64(p.rows)/2
	return weights + position*middle*int64(p.batch)
}
