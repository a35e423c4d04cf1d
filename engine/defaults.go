package engine

import (
	"fmt"

	"corenode/engine/modelfile"
	"corenode/engine/sample"
)

// defaults are the parameters for what a request leaves out: those of the card of the model's
// family, over them what the file says of its own, and over both what the operator says. A file
// has one set: where the card tells answers with and without thinking apart, it is for those with.
func (o Options) defaults(f *modelfile.File, thinking bool) (sample.Params, error) {
	p := o.Defaults(f.Architecture(), thinking)
	if thinking || p == o.Defaults(f.Architecture(), true) {
		if err := ownSampling(&p, f); err != nil {
			return p, err
		}
	}
	if o.Configured != nil {
		o.Configured(&p)
	}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("sampling of the model: %w", err)
	}
	return p, nil
}

// ownSampling reads what a model file says about sampling.
func ownSampling(p *sample.Params, f *modelfile.File) error {
	numbers := map[string]*float32{"temp": &p.Temperature, "top_p": &p.TopP, "min_p": &p.MinP, "penalty_repeat": &p.RepetitionPenalty}
	for key, to := range numbers {
		if key = "general.sampling." + key; f.Has(key) {
			x, err := f.Float(key)
			if err != nil {
				return err
			}
			*to = float32(x)
		}
	}
	const topK = "general.sampling.top_k"
	if !f.Has(topK) {
		return nil
	}
	ks, err := f.Ints(topK)
	if err == nil && len(ks) != 1 {
		err = fmt.Errorf("metadata key %q has %d values, want one", topK, len(ks))
	}
	if err == nil {
		p.TopK = int(max(ks[0], 0)) // some say -1 for all
	}
	return err
}
