package draft

import (
	"math"
	"slices"
	"time"
)

// LayerTokensMax is the most tokens that a prediction layer drafts: each one costs
// a pass, and rests on those before it.
const LayerTokensMax = 5

const (
	// forgetLayer is the forgetting of what all sequences of a model share.
	forgetLayer = 0.995
	// layerPrior is the chance of a drafted token before any was seen.
	layerPrior = 0.6
	// layerWeight is the weight of that prior, in drafts, and of what all sequences had for one
	// of them. A few wrong drafts must not end what is dear to try again. firstTries are seen
	// before anything is believed.
	layerWeight, firstTries = 8, 16
	// layerGain is the factor by which drafts must be expected to raise the tokens per second.
	// Expectations are not exact.
	layerGain = 1.03
	// tryEvery is after how many steps without a pass one is made although it is not expected
	// to pay: expectations get old.
	tryEvery = 64
	// shareWeight is the weight of the latest pass in the cost of a pass. shareOutlier bounds
	// how far one pass may be from that cost.
	shareWeight, shareOutlier = 0.125, 2
)

// levels tell drafted tokens apart by the probability that the layer itself gives
// to them. prior is how many of them are right before anything was seen.
var levels = [...]struct{ confidence, prior float64 }{
	{0, 0.25}, {0.4, 0.45}, {0.6, 0.6}, {0.8, 0.75}, {0.9, 0.85}, {0.97, 0.93},
}

func levelOf(confidence float64) int {
	level := 0
	for level+1 < len(levels) && confidence >= levels[level+1].confidence {
		level++
	}
	return level
}

// record is how often drafted tokens were right.
type record struct {
	all    tally
	levels [len(levels)]tally
}

func (r *record) learn(level int, right bool, forget float64) {
	r.all.learn(right, forget)
	r.levels[level].learn(right, forget)
}

// Layer is what is known of a model's prediction layer, which computes a draft of the token
// after the next, and of further ones from its own drafts. Unlike a lookup it takes time, a
// pass for each token. Its zero value knows nothing.
type Layer struct {
	record record  // of all sequences
	share  float64 // what a pass takes, as a share of a step of as many rows; 0: unknown
	idle   int     // steps since the latest pass
}

// Begin says for how many of a step's decodes the first pass pays. gains are how many more
// drafted tokens are expected to be right with it, in falling order. seconds predicts a step of
// so many rows, 0 where that is unknown. Now and then it is all of them, to see how they do.
func (l *Layer) Begin(gains []float64, decodes int, seconds func(int) float64) int {
	if len(gains) == 0 || seconds(decodes) <= 0 {
		return 0
	}
	n := l.Worth(gains, decodes, 0, seconds)
	if l.idle++; n == 0 && (l.share == 0 || l.record.all.seen < firstTries || l.idle >= tryEvery) {
		n = len(gains)
	}
	if n > 0 {
		l.idle = 0
	}
	return n
}

// Worth says for how many sequences a pass pays, with the row that it adds to the next step for
// each. That step has decodes sequences and drafted rows besides. Time is worth the tokens that
// the decodes alone would give in it.
func (l *Layer) Worth(gains []float64, decodes, drafted int, seconds func(int) float64) int {
	alone, now := seconds(decodes), seconds(decodes+drafted)
	if l.share == 0 || alone <= 0 {
		return 0
	}
	rate := layerGain * float64(decodes) / alone
	n, most, sum := 0, 0.0, 0.0
	for i, gain := range gains {
		sum += gain
		took := max(0, seconds(decodes+drafted+i+1)-now) + l.share*stepOf(i+1, decodes, seconds)
		if sum-rate*took > most {
			n, most = i+1, sum-rate*took
		}
	}
	return n
}

// Took takes the time of a pass of so many rows after a step of decodes.
func (l *Layer) Took(rows, decodes int, took time.Duration, seconds func(int) float64) {
	step := stepOf(rows, decodes, seconds)
	if step <= 0 || took <= 0 {
		return
	}
	share := took.Seconds() / step
	if l.share == 0 {
		l.share = share
	}
	l.share += shareWeight * (min(max(share, l.share/shareOutlier), l.share*shareOutlier) - l.share)
}

// stepOf is what a step of so many rows takes, or of decodes where nothing is
// known of so few.
func stepOf(rows, decodes int, seconds func(int) float64) float64 {
	if s := seconds(rows); s > 0 {
		return s
	}
	return seconds(decodes)
}

// LayerDrafter is what the layer drafts for one sequence.
type LayerDrafter struct {
	layer  *Layer
	stops  []int32 // tokens after which nothing comes
	record record
	draft  []int32
	level  []int   // by token; one more where the draft ended before a stop
	stop   int32   // that one
	chance float64 // that all of draft is right
}

// NewDrafter returns the prediction of a sequence that ends with any of stops.
// They belong to the caller, who does not change them.
func (l *Layer) NewDrafter(stops []int32) *LayerDrafter {
	return &LayerDrafter{layer: l, stops: stops, chance: 1}
}

// Expected is the chance that one token more of the draft would be right, and all
// before it.
func (p *LayerDrafter) Expected() float64 {
	prior := p.layer.record.all.chance(layerPrior, layerWeight)
	return p.chance * p.record.all.chance(prior, layerWeight)
}

// Add adds a token to the draft that the layer gives a probability of confidence.
// It returns false where the draft ends: at its largest, or before a stop, behind
// which nothing is won.
func (p *LayerDrafter) Add(token int32, confidence float64) bool {
	if len(p.draft) == LayerTokensMax || len(p.level) > len(p.draft) {
		return false
	}
	level := levelOf(confidence)
	p.level = append(p.level, level)
	if slices.Contains(p.stops, token) {
		p.stop = token
		return false
	}
	p.draft = append(p.draft, token)
	prior := p.layer.record.levels[level].chance(levels[level].prior, layerWeight)
	p.chance *= p.record.levels[level].chance(prior, layerWeight)
	return len(p.draft) < LayerTokensMax
}

// Draft is the tokens added since Observe, valid until the next Add, and the chance
// that one of them is right when those before it are: the mean over them.
func (p *LayerDrafter) Draft() (draft []int32, chance float64) {
	if len(p.draft) == 0 {
		return nil, 0
	}
	return p.draft, math.Pow(p.chance, 1/float64(len(p.draft)))
}

// Observe says which tokens came after the draft, and ends it.
func (p *LayerDrafter) Observe(sampled []int32) {
	for i, id := range sampled[:min(len(sampled), len(p.level))] {
		said := p.stop
		if i < len(p.draft) {
			said = p.draft[i]
		}
		right := id == said
		p.record.learn(p.level[i], right, forget)
		p.layer.record.learn(p.level[i], right, forgetLayer)
		if !right {
			break
		}
	}
	p.draft, p.level, p.chance = p.draft[:0], p.level[:0], 1
}

// Right is how many of n tokens are expected to be right, when each is with chance
// once those before it are.
func Right(n int, chance float64) float64 {
	if chance >= 1 {
		return float64(n)
	}
	return chance * (1 - math.Pow(chance, float64(n))) / (1 - chance)
}
