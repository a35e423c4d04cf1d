package messages

import "math"

// Bounds of the sampling parameters.
const (
	penaltyMax    = 2 // of presence and frequency, either sign
	repetitionMin = 0.01
	repetitionMax = 100
)

// Sampling is how tokens are to be drawn; nil is what the request leaves to
// the model's defaults. MinP, the penalties, Seed, MinTokens and IgnoreEOS are no
// fields of the protocol's: other protocols and load tools have them, and here
// they mean the same.
type Sampling struct {
	Temperature       *float64 // 0 or more
	TopP              *float64 // 0 to 1
	TopK              *int     // 0 or more; 0 keeps all
	MinP              *float64 // 0 to 1
	PresencePenalty   *float64 // -2 to 2
	FrequencyPenalty  *float64 // -2 to 2
	RepetitionPenalty *float64 // 0.01 to 100
	Seed              *int64
	MinTokens         int  // tokens before the model or a stop sequence may end the answer
	IgnoreEOS         bool // the model never ends it
}

// sampling reads the value of a sampling parameter; false when name is none.
func (r *reader) sampling(s *Sampling, name string) bool {
	switch name {
	case "temperature":
		s.Temperature = r.bounded(name, 0, math.MaxFloat32)
	case "top_p":
		s.TopP = r.bounded(name, 0, 1)
	case "top_k":
		k := r.integer()
		if k < 0 {
			r.fail(invalid(name, "%d is under 0", k))
		}
		s.TopK = &k
	case "min_p":
		s.MinP = r.bounded(name, 0, 1)
	case "presence_penalty":
		s.PresencePenalty = r.bounded(name, -penaltyMax, penaltyMax)
	case "frequency_penalty":
		s.FrequencyPenalty = r.bounded(name, -penaltyMax, penaltyMax)
	case "repetition_penalty":
		s.RepetitionPenalty = r.bounded(name, repetitionMin, repetitionMax)
	case "seed":
		s.Seed = r.seed()
	case "min_tokens":
		if s.MinTokens = r.integer(); s.MinTokens < 0 {
			r.fail(invalid(name, "%d is under 0", s.MinTokens))
		}
	case "ignore_eos":
		s.IgnoreEOS = r.bool()
	default:
		return false
	}
	return true
}

func (r *reader) bounded(name string, min, max float64) *float64 {
	f := r.number()
	if f < min || f > max {
		r.fail(invalid(name, "%g is not between %g and %g", f, min, max))
	}
	return &f
}

// seed reads any 64-bit integer: clients draw them from the whole range.
func (r *reader) seed() *int64 {
	t, ok := r.want('0', "an integer")
	if !ok {
		return nil
	}
	n, ok := whole(t.String())
	if !ok {
		r.fail(invalid(r.path(), "want an integer of 64 bits, over 2^53 in plain digits; not %s", t.String()))
		return nil
	}
	return &n
}
