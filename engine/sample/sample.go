// Package sample turns logits into tokens. It is pure: the same parameters,
// logits and number of tokens so far give the same token.
//
// The steps, in order: masked ids are removed; penalties change the logits of
// tokens generated before, that of repetition also those of the prompt's;
// temperature divides; top_k, top_p and min_p each
// remove the least likely tokens; one draw picks among what is left. Tokens are
// ordered by logit, equal ones by lower id, and each filter keeps a prefix of
// that order, so one cut describes them all.
//
// Draw n of a sequence is a function of (Seed, n), n being the number of tokens
// accepted so far: other sequences in the batch, a preemption or a sampler
// rebuilt by accepting the same tokens do not change it.
package sample

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Params say how tokens are drawn. The zero value is greedy.
type Params struct {
	// Temperature divides the logits. 0 takes the most likely token. No upper
	// bound: large values approach a uniform draw.
	Temperature float32
	// TopP keeps the fewest most likely tokens whose probabilities, among those
	// that TopK kept, sum to at least TopP; always one. 1 keeps all.
	TopP float32
	// MinP removes tokens less likely than MinP times the most likely one. 0 keeps all.
	MinP float32
	// TopK keeps the most likely tokens. 0 keeps all.
	TopK int
	// PresencePenalty is subtracted from the logit of every token generated before.
	PresencePenalty float32
	// FrequencyPenalty is subtracted once for each time the token was generated.
	FrequencyPenalty float32
	// RepetitionPenalty divides positive and multiplies negative logits of the tokens
	// of prompt and answer so far, each once however often it came (Keskar et al. 2019,
	// "CTRL", section 4.1); it goes before the other two. 1, and 0, mean none.
	RepetitionPenalty float32
	// Seed selects the sequence of draws.
	Seed uint64
}

// RepetitionMin and RepetitionMax bound a repetition penalty that is one: outside
// of them logits leave the range of numbers that say something.
const RepetitionMin, RepetitionMax = 0.01, 100

// Validate reports every value that is out of bounds.
func (p Params) Validate() error {
	var errs []error
	check := func(name string, x, lo, hi float32) {
		if !(x >= lo && x <= hi) {
			errs = append(errs, fmt.Errorf("%s is %g, want %g to %g", name, x, lo, hi))
		}
	}
	check("temperature", p.Temperature, 0, math.MaxFloat32)
	check("top_p", p.TopP, 0, 1)
	check("min_p", p.MinP, 0, 1)
	if p.TopK < 0 {
		errs = append(errs, fmt.Errorf("top_k is %d, want 0 or more", p.TopK))
	}
	check("presence_penalty", p.PresencePenalty, -2, 2)
	check("frequency_penalty", p.FrequencyPenalty, -2, 2)
	if p.RepetitionPenalty != 0 {
		check("repetition_penalty", p.RepetitionPenalty, RepetitionMin, RepetitionMax)
	}
	return errors.Join(errs...)
}

// Greedy says whether the likeliest token is taken.
func (p Params) Greedy() bool { return p.Temperature == 0 || p.TopK == 1 || p.TopP == 0 }

// Few says whether TopK keeps so few of a vocabulary's tokens that the draw walks over them in order of
// likelihood; otherwise it does so in order of their ids.
func (p Params) Few(vocabulary int) bool {
	return p.TopK > 0 && p.TopK <= fewMax && p.TopK < vocabulary
}

func (p Params) penalize() bool {
	return p.PresencePenalty != 0 || p.FrequencyPenalty != 0 || p.Repeats()
}

// Repeats says whether there is a repetition penalty, for which New has to know the prompt.
func (p Params) Repeats() bool { return p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1 }

// Sampler draws the tokens of one sequence. Its scratch memory grows to some tens of
// KiB, more only where more tokens than that are equally likely or there is a Preview, and
// is then reused.
type Sampler struct {
	p        Params
	mask     []int32
	prompt   []int32 // its distinct tokens in rising order, for a repetition penalty
	accepted uint64  // tokens so far: the number of the next draw

	// Generated tokens in order of first appearance; only kept when a penalty uses
	// them. at finds a token's entry.
	seen []Seen
	at   map[int32]int32

	found   []candidate
	blocks  []float64
	sample  []float32
	preview []float32 // of a vocabulary, where there is a Preview
}

// Seen is a token that was accepted, and how often.
type Seen struct {
	ID, Times int32
	Prompted  bool // the prompt has it too
}

// New returns a sampler for valid parameters. mask lists, in rising order, ids
// that are never sampled; those beyond the vocabulary do not matter. prompt are
// the distinct tokens of the prompt, likewise (see Distinct); only a repetition
// penalty asks for them. The caller must not change either.
func New(p Params, mask, prompt []int32) *Sampler {
	s := &Sampler{p: p, mask: mask}
	if p.Repeats() {
		s.prompt = prompt
	}
	if p.penalize() {
		s.at = map[int32]int32{}
	}
	return s
}

// State is all that the next draw depends on besides parameters and logits.
type State struct {
	Draw   uint64  // its number: the tokens accepted so far
	Mask   []int32 // as New has it
	Prompt []int32 // likewise, where a penalty asks for it
	Seen   []Seen  // where one asks for them
}

// State is for another sampler, on a device, to draw as this one would. It is valid until Accept.
func (s *Sampler) State() State { return State{s.accepted, s.mask, s.prompt, s.seen} }

// Resume returns a sampler that draws as the one whose state it is. It is for tests, in the place of a device.
func Resume(p Params, state State) *Sampler {
	s := New(p, state.Mask, state.Prompt)
	for _, t := range state.Seen {
		for range t.Times {
			s.Accept(t.ID)
		}
	}
	s.accepted = state.Draw
	return s
}

// Distinct are the tokens of a prompt in rising order, each once. A draw looks at
// each of them, so a prompt of any length costs it at most a vocabulary.
func Distinct(prompt []int32) []int32 {
	ids := slices.Clone(prompt)
	slices.Sort(ids)
	return slices.Clip(slices.Compact(ids))
}

// Accept makes token part of the sequence. Call it once for every token after
// sampling it, or again for all of them to rebuild a sampler.
func (s *Sampler) Accept(token int32) {
	s.accepted++
	if s.at == nil {
		return
	}
	i, ok := s.at[token]
	if !ok {
		i = int32(len(s.seen))
		s.at[token] = i
		_, prompted := slices.BinarySearch(s.prompt, token)
		s.seen = append(s.seen, Seen{ID: token, Prompted: prompted})
	}
	s.seen[i].Times++
}

// Sample draws the next token. It overwrites logits. NaN counts as impossible
// and +Inf as certain (the lowest such id). If no token is possible, the result is the
// lowest id that is not masked.
func (s *Sampler) Sample(logits []float32) int32 {
	s.adjust(logits)
	var id int32
	switch k := s.p.TopK; {
	case s.p.Greedy():
		id = Greedy(logits)
	case s.p.Few(len(logits)):
		id = s.sampleFew(logits, k)
	default:
		id = s.sampleAll(logits)
	}
	if id < 0 || !(logits[id] > minusInf) {
		return s.lowest(logits)
	}
	return id
}

// Preview is what Sample would draw from logits, which it leaves as they are.
func (s *Sampler) Preview(logits []float32) int32 {
	s.preview = append(s.preview[:0], logits...)
	return s.Sample(s.preview)
}

var minusInf, plusInf = float32(math.Inf(-1)), float32(math.Inf(1))

// adjust applies penalties and the mask.
func (s *Sampler) adjust(logits []float32) {
	repeat := cmp.Or(s.p.RepetitionPenalty, 1)
	for _, id := range s.prompt {
		if id >= 0 && int(id) < len(logits) {
			repeated(&logits[id], repeat)
		}
	}
	for _, t := range s.seen {
		if t.ID < 0 || int(t.ID) >= len(logits) {
			continue
		}
		x := &logits[t.ID]
		if !t.Prompted {
			repeated(x, repeat)
		}
		*x -= float32(float32(t.Times)*s.p.FrequencyPenalty) + s.p.PresencePenalty
	}
	hide(logits, s.mask)
}

// repeated makes the logit of a token that came before less by a factor.
func repeated(x *float32, by float32) {
	if *x > 0 {
		*x /= by
	} else {
		*x = float32(*x * by)
	}
}

// Hide makes tokens impossible. It may come before Sample, for what holds at this draw only.
func Hide(logits []float32, tokens []int32) {
	for _, id := range tokens {
		if id >= 0 && int(id) < len(logits) {
			logits[id] = minusInf
		}
	}
}

// hide makes the tokens of mask, in rising order, impossible.
func hide(logits []float32, mask []int32) {
	for _, id := range mask {
		if int(id) >= len(logits) {
			break
		}
		if id >= 0 {
			logits[id] = minusInf
		}
	}
}

// lowest is the lowest id that is not masked; 0 when all are.
func (s *Sampler) lowest(logits []float32) int32 {
	masked := make(map[int32]bool, len(s.mask)) // not the usual path: the model gave no usable logit
	for _, id := range s.mask {
		masked[id] = true
	}
	for i := range logits {
		if !masked[int32(i)] {
			return int32(i)
		}
	}
	return 0
}

// Greedy is the first index of the largest value. NaN never wins; it is 0 when nothing
// is larger than -Inf.
func Greedy(logits []float32) int32 {
	best, at := minusInf, 0
	for best < plusInf {
		i := scan.firstIn(logits[at:], next(best), plusInf)
		if i < 0 {
			break
		}
		at += i
		best = logits[at]
	}
	return int32(at)
}

// Likeliest is the token that Greedy takes of those that are not in mask, which is
// in rising order, and its probability at temperature 1; 0 when none is possible. It
// overwrites logits.
func Likeliest(logits []float32, mask []int32) (token int32, probability float64) {
	hide(logits, mask)
	token = Greedy(logits)
	most := logits[token]
	if !(most > minusInf) {
		return token, 0
	}
	if most == plusInf {
		return token, 1
	}
	f := softmax{float64(most), 1}
	return token, 1 / scan.weightSum(logits, f, f.floor())
}

// next and previous are the numbers beside x.
func next(x float32) float32     { return math.Nextafter32(x, plusInf) }
func previous(x float32) float32 { return math.Nextafter32(x, minusInf) }

// draw is uniform in [0, 1), a function of the seed and the tokens so far.
func (s *Sampler) draw() float64 { return Uniform(s.p.Seed, s.accepted) }

// Uniform is the number in [0, 1) that decides a draw of a seed.
func Uniform(seed, draw uint64) float64 {
	return float64(mix(mix(seed)+draw*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// mix is a bijection that spreads every input bit over the output: the finalizer
// of the splitmix64 generator.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// softmax turns logits into weights relative to the largest one. float64 keeps
// the quotient finite for every float32 temperature.
type softmax struct{ most, scale float64 }

func (s *Sampler) softmax(most float32) softmax {
	return softmax{float64(most), 1 / float64(s.p.Temperature)}
}

func (f softmax) weight(x float32) float64 { return exp((float64(x) - f.most) * f.scale) }

// reach is the smallest possible logit with at least that weight, above 0.
func (f softmax) reach(weight float64) float32 {
	least, most := order(-math.MaxFloat32), order(float32(f.most))
	return ordered(least + sort.Search(most-least, func(i int) bool { return f.weight(ordered(least+i)) >= weight }))
}

// floor is the smallest possible logit with a weight that counts.
func (f softmax) floor() float32 { return f.reach(math.SmallestNonzeroFloat64) }

// order numbers the finite numbers in rising order, 0 and -0 alike; ordered goes back.
func order(x float32) int {
	switch {
	case x < 0:
		return -int(math.Float32bits(-x))
	case x == 0:
		return 0
	}
	return int(math.Float32bits(x))
}

func ordered(i int) float32 {
	if i < 0 {
		return -math.Float32frombits(uint32(-i))
	}
	return math.Float32frombits(uint32(i))
}
