package engine

import (
	"fmt"

	"corenode/engine/modelfile"
	"corenode/engine/sample"
)

// defaults are the parameters for what a request leaves out, of answers with a thought and of
// those without.
type defaults struct{ thinking, straight sample.Params }

// defaults are those of the card of the model's family, and over them what the file says of its
// own. A file has one set: where the card tells answers with and without thinking apart, it is for
// those with.
func (o Options) defaults(f *modelfile.File) (d defaults, err error) {
	d = defaults{thinking: o.Defaults(f.Architecture(), true), straight: o.Defaults(f.Architecture(), false)}
	same := d.thinking == d.straight
	if err = ownSampling(&d.thinking, f); err == nil && same {
		d.straight = d.thinking
	}
	return d, err
}

// Configure changes the defaults as the operator wants them, of requests that are prepared from
// now on; nil = not at all. What was changed before counts no more. Any goroutine may call it.
func (e *Engine) Configure(change func(*sample.Params)) error {
	d := e.ownDefaults
	for _, p := range []*sample.Params{&d.thinking, &d.straight} {
		if change != nil {
			change(p)
		}
		if err := p.Validate(); err != nil {
			return fmt.Errorf("sampling of the model: %w", err)
		}
	}
	e.defaults.Store(&d)
	return nil
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
