package model

import (
	"fmt"
	"math"

	"corenode/engine/modelfile"
)

// required as a default means that the key must be there.
const required = -1

// keys reads metadata of one architecture and collects what is wrong with it.
// A getter that fails returns 0, so callers must not divide by what they get
// before looking.
type keys struct {
	f    *modelfile.File
	arch string
	errs []error
}

// fail records an error about a key of the architecture; format begins with its name.
func (k *keys) fail(format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("metadata key "+k.arch+"."+format, args...))
}

// int reads an integer from lo to hi; absent, it is fallback (which is not
// checked: it was derived from checked values).
func (k *keys) int(name string, fallback, lo, hi int) int {
	key := k.arch + "." + name
	if !k.f.Has(key) {
		if fallback < 0 {
			k.fail("%s is absent", name)
			return 0
		}
		return fallback
	}
	n, err := k.f.Uint(key)
	if err != nil {
		k.errs = append(k.errs, err)
		return 0
	}
	if n < uint64(lo) || n > uint64(hi) {
		k.fail("%s is %d, want %d to %d", name, n, lo, hi)
		return 0
	}
	return int(n)
}

// perLayer reads a number from 1 to hi that some files give for each layer.
// Layers without such heads say 0; the others must agree.
func (k *keys) perLayer(name string, fallback, hi int) int {
	key := k.arch + "." + name
	all, err := k.f.Ints(key)
	if err != nil || len(all) == 1 { // a scalar, absent or wrong: int says which
		return k.int(name, fallback, 1, hi)
	}
	n := int64(0)
	for i, v := range all {
		if v < 0 || v > int64(hi) || v != 0 && n != 0 && v != n {
			k.fail("%s[%d] is %d, want 0, or one number from 1 to %d for all layers", name, i, v, hi)
			return 0
		}
		n = max(n, v)
	}
	if n == 0 {
		k.fail("%s has no number above 0", name)
	}
	return int(n)
}

// kinds reads which layers are recurrent; nil when the file does not say.
func (k *keys) kinds(layers int) []bool {
	const name = "attention.recurrent_layers"
	if !k.f.Has(k.arch + "." + name) {
		return nil
	}
	all, err := k.f.Ints(k.arch + "." + name)
	if err != nil {
		k.errs = append(k.errs, err)
		return make([]bool, layers)
	}
	out := make([]bool, layers)
	if len(all) < layers { // it may go on for the prediction blocks
		k.fail("%s has %d entries, want one for each of %d layers", name, len(all), layers)
		return out
	}
	for i := range out {
		out[i] = all[i] != 0
	}
	return out
}

// float reads a finite number from lo to hi.
func (k *keys) float(name string, fallback, lo, hi float64) float64 {
	key := k.arch + "." + name
	if !k.f.Has(key) {
		if fallback < 0 {
			k.fail("%s is absent", name)
		}
		return fallback
	}
	x, err := k.f.Float(key)
	if err != nil {
		k.errs = append(k.errs, err)
		return fallback
	}
	if math.IsNaN(x) || x < lo || x > hi {
		k.fail("%s is %g, want %g to %g", name, x, lo, hi)
		return fallback
	}
	return x
}

// string reads a text.
func (k *keys) string(name, fallback string) string {
	key := k.arch + "." + name
	if !k.f.Has(key) {
		return fallback
	}
	s, err := k.f.String(key)
	if err != nil {
		k.errs = append(k.errs, err)
		return fallback
	}
	return s
}
