package engine

import (
	"slices"

	"corenode/bench/proc"
	"corenode/bench/report"
)

// ForeignMax is the share of the machine's time that other programs may use
// during a part of a round; above it that part of that round does not count.
const ForeignMax = 0.05

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
	Foreign float64 `json:"foreign"`
}

// Starts are the two.
type Starts struct {
	Cold  Start   `json:"cold"` // weights are packed
	Warm  Start   `json:"warm"` // packed weights are found
	Ratio float64 `json:"warm_to_cold"`
}

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.engine/1"

// Report is the result of one run. METHOD.md documents its JSON.
type Report struct {
	Schema  string    `json:"schema"`
	Host    proc.Host `json:"host"`
	Options Options   `json:"options"`
	Weights Weights   `json:"weights"`
	Starts  Starts    `json:"starts"`
	Decode  Decode    `json:"decode"`
	Batch   Batch     `json:"batch"`
	Turns   Turns     `json:"turns"`
	Gates   []Gate    `json:"gates"`
}

// Rounds says in which rounds a part counts.
type Rounds struct {
	Run       int     `json:"run"`
	Discarded int     `json:"discarded"`
	Disturbed bool    `json:"disturbed"`   // every round was, so that all count
	Foreign   float64 `json:"foreign_max"` // the most foreign CPU use in a round that counts
}

// Decode is one greedy stream beside plain reading of memory.
type Decode struct {
	Rounds     Rounds        `json:"rounds"`
	TokensPerS report.Spread `json:"tokens_per_s"`
	GBs        report.Spread `json:"gb_per_s"` // weights read
	MemoryGBs  report.Spread `json:"memory_gb_per_s"`
	Share      report.Spread `json:"share"` // within each round
}

// Batch is streams at once beside the same number one after another.
type Batch struct {
	Rounds     Rounds        `json:"rounds"`
	Sequence   report.Spread `json:"sequence_tokens_per_s"`
	Concurrent report.Spread `json:"concurrent_tokens_per_s"`
	Ratio      report.Spread `json:"wall_ratio"` // within each round
}

// Turns is the second turn of a conversation beside the first.
type Turns struct {
	Rounds Rounds        `json:"rounds"`
	Turn1  report.Spread `json:"turn1_ttft_ms"`
	Turn2  report.Spread `json:"turn2_ttft_ms"`
	Ratio  report.Spread `json:"ttft_ratio"` // within each round
	Input  int           `json:"turn2_input_tokens"`
	Cached int           `json:"turn2_cached_tokens"` // the fewest of all rounds
}

// Gate is a bound on a median.
type Gate struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	// AtLeast says that the limit is met from it on; otherwise below it.
	AtLeast bool `json:"at_least"`
	Met     bool `json:"met"`
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

func spread(rounds []Round, f func(Round) float64) report.Spread {
	var values []float64
	for _, r := range rounds {
		values = append(values, f(r))
	}
	return report.SpreadOf(values)
}

func decodeOf(all []Round, w Weights) Decode {
	kept, rounds := quiet(all, partDecode)
	gbs := func(r Round) float64 { return r.TokensPerS * float64(w.BytesPerToken) / 1e9 }
	return Decode{
		Rounds:     rounds,
		TokensPerS: spread(kept, func(r Round) float64 { return r.TokensPerS }),
		GBs:        spread(kept, gbs),
		MemoryGBs:  spread(kept, func(r Round) float64 { return r.MemoryGBs }),
		Share:      spread(kept, func(r Round) float64 { return report.Ratio(gbs(r), r.MemoryGBs) }),
	}
}

func batchOf(all []Round) Batch {
	kept, rounds := quiet(all, partBatch)
	return Batch{
		Rounds:     rounds,
		Sequence:   spread(kept, func(r Round) float64 { return report.Ratio(1, r.Sequence) }),
		Concurrent: spread(kept, func(r Round) float64 { return report.Ratio(1, r.Concurrent) }),
		Ratio:      spread(kept, func(r Round) float64 { return report.Ratio(r.Concurrent, r.Sequence) }),
	}
}

func turnsOf(all []Round) Turns {
	kept, rounds := quiet(all, partTurns)
	t := Turns{
		Rounds: rounds,
		Turn1:  spread(kept, func(r Round) float64 { return 1e3 * r.Turn1 }),
		Turn2:  spread(kept, func(r Round) float64 { return 1e3 * r.Turn2 }),
		Ratio:  spread(kept, func(r Round) float64 { return report.Ratio(r.Turn2, r.Turn1) }),
	}
	for i, r := range kept {
		if i == 0 || r.Cached < t.Cached {
			t.Input, t.Cached = r.Input, r.Cached
		}
	}
	return t
}

// gates holds medians against their bounds. A zero was not measured and meets none.
func gates(r Report, o Options) []Gate {
	below := func(name string, value, limit float64) Gate {
		return Gate{name, value, limit, false, value > 0 && value < limit}
	}
	share := r.Decode.Share.Median
	return []Gate{
		{"decode: weights read / memory read bandwidth", share, o.MinShare, true, share > 0 && share >= o.MinShare},
		below("batch: wall time at once / in sequence", r.Batch.Ratio.Median, o.MaxBatchRatio),
		below("conversation: TTFT of turn 2 / turn 1", r.Turns.Ratio.Median, o.MaxTurnRatio),
	}
}

// Met says whether every gate is.
func (r Report) Met() bool {
	return !slices.ContainsFunc(r.Gates, func(g Gate) bool { return !g.Met })
}

// quiet leaves out the rounds in which other programs disturbed a part. When
// that leaves nothing, all rounds count and the report says so.
func quiet(all []Round, part int) (kept []Round, r Rounds) {
	r.Run = len(all)
	for _, one := range all {
		if one.Foreign[part] > ForeignMax {
			r.Discarded++
		}
	}
	r.Disturbed = r.Run > 0 && r.Discarded == r.Run
	for _, one := range all {
		if r.Disturbed || one.Foreign[part] <= ForeignMax {
			kept = append(kept, one)
			r.Foreign = max(r.Foreign, one.Foreign[part])
		}
	}
	return kept, r
}
