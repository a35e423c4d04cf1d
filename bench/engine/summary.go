package engine

import (
	"corenode/bench/proc"
	"corenode/bench/report"
)

// The parts of a round. Nothing is compared across them.
const (
	partDecode = iota
	partBatch
	partTurns
	parts
)

// Round is what one round measured. Times are seconds.
type Round struct {
	TokensPerS float64 // of the single stream, after its first token
	MemoryGBs  float64 // plain reading, mean of right before and right after
	Sequence   float64 // wall time per token, streams one after another
	Concurrent float64 // wall time per token, streams at once
	Turn1      float64 // to the first output, nothing cached
	Turn2      float64 // to the first output, the same conversation one turn later
	Input      int     // prompt tokens of turn 2 that were computed
	Cached     int     // prompt tokens of turn 2 that were not
	// Foreign is the share of the machine's time that others used during each part.
	Foreign [parts]float64
}

// Start is one start of the node. Times are seconds.
type Start struct {
	Ready   float64 `json:"ready_s"`
	RSS     int64   `json:"rss_bytes"`
	Foreign float64 `json:"foreign"` // share of the machine that others used
}

// Starts are the two.
type Starts struct {
	Cold  Start   `json:"cold"` // weights are packed
	Warm  Start   `json:"warm"` // packed weights are found
	Ratio float64 `json:"warm_to_cold"`
}

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.engine/1"

// Report is the result of one run, as it is written to a file.
type Report struct {
	Schema       string    `json:"schema"`
	Host         proc.Host `json:"host"`
	Options      Options   `json:"options"`
	Weights      Weights   `json:"weights"`
	Starts       Starts    `json:"starts"`
	Decode       Decode    `json:"decode"`
	Batch        Batch     `json:"batch"`
	Turns        Turns     `json:"turns"`
	report.Gates `json:"gates"`
}

// Decode is one greedy stream beside plain reading of memory.
type Decode struct {
	Rounds     report.Rounds `json:"rounds"`
	TokensPerS report.Spread `json:"tokens_per_s"`
	GBs        report.Spread `json:"gb_per_s"` // weights read
	MemoryGBs  report.Spread `json:"memory_gb_per_s"`
	Share      report.Spread `json:"share"` // within each round
}

// Batch is streams at once beside the same number one after another.
type Batch struct {
	Rounds     report.Rounds `json:"rounds"`
	Sequence   report.Spread `json:"sequence_tokens_per_s"`
	Concurrent report.Spread `json:"concurrent_tokens_per_s"`
	Ratio      report.Spread `json:"wall_ratio"` // within each round
}

// Turns is the second turn of a conversation beside the first.
type Turns struct {
	Rounds report.Rounds `json:"rounds"`
	Turn1  report.Spread `json:"turn1_ttft_ms"`
	Turn2  report.Spread `json:"turn2_ttft_ms"`
	Ratio  report.Spread `json:"ttft_ratio"` // within each round
	Input  int           `json:"turn2_input_tokens"`
	Cached int           `json:"turn2_cached_tokens"` // the fewest of all rounds
}

// Summarize makes the report of a run. Host is the caller's to fill in.
func Summarize(w Weights, cold, warm Start, all []Round, o Options) Report {
	r := Report{Schema: Schema, Options: o, Weights: w, Starts: Starts{cold, warm, report.Ratio(warm.Ready, cold.Ready)}}
	r.Decode = decodeOf(all, w)
	r.Batch = batchOf(all)
	r.Turns = turnsOf(all)
	r.Gates = gates(r, o)
	return r
}

func decodeOf(all []Round, w Weights) Decode {
	kept, rounds := report.Quiet(all, foreign(partDecode))
	gbs := func(r Round) float64 { return r.TokensPerS * float64(w.BytesPerToken) / 1e9 }
	return Decode{
		Rounds:     rounds,
		TokensPerS: report.SpreadBy(kept, func(r Round) float64 { return r.TokensPerS }),
		GBs:        report.SpreadBy(kept, gbs),
		MemoryGBs:  report.SpreadBy(kept, func(r Round) float64 { return r.MemoryGBs }),
		Share:      report.SpreadBy(kept, func(r Round) float64 { return report.Ratio(gbs(r), r.MemoryGBs) }),
	}
}

func batchOf(all []Round) Batch {
	kept, rounds := report.Quiet(all, foreign(partBatch))
	return Batch{
		Rounds:     rounds,
		Sequence:   report.SpreadBy(kept, func(r Round) float64 { return report.Ratio(1, r.Sequence) }),
		Concurrent: report.SpreadBy(kept, func(r Round) float64 { return report.Ratio(1, r.Concurrent) }),
		Ratio:      report.SpreadBy(kept, func(r Round) float64 { return report.Ratio(r.Concurrent, r.Sequence) }),
	}
}

func turnsOf(all []Round) Turns {
	kept, rounds := report.Quiet(all, foreign(partTurns))
	t := Turns{
		Rounds: rounds,
		Turn1:  report.SpreadBy(kept, func(r Round) float64 { return 1e3 * r.Turn1 }),
		Turn2:  report.SpreadBy(kept, func(r Round) float64 { return 1e3 * r.Turn2 }),
		Ratio:  report.SpreadBy(kept, func(r Round) float64 { return report.Ratio(r.Turn2, r.Turn1) }),
	}
	for i, r := range kept {
		if i == 0 || r.Cached < t.Cached {
			t.Input, t.Cached = r.Input, r.Cached
		}
	}
	return t
}

// gates holds medians against their bounds.
func gates(r Report, o Options) report.Gates {
	return report.Gates{
		report.AtLeast("decode: weights read / memory read bandwidth", r.Decode.Share.Median, o.MinShare),
		report.Below("batch: wall time at once / in sequence", r.Batch.Ratio.Median, o.MaxBatchRatio),
		report.Below("conversation: TTFT of turn 2 / turn 1", r.Turns.Ratio.Median, o.MaxTurnRatio),
	}
}

// foreign is what others used during a part of a round.
func foreign(part int) func(Round) float64 { return func(r Round) float64 { return r.Foreign[part] } }
