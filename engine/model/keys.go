package model

import (
	"fmt"
	"math"
	"strings"

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
	read map[string]bool // names that a getter was asked for
	errs []error
}

// idle are names of keys that change nothing of what is computed here: they repeat what the
// shapes of tensors say, or describe how the model was made.
var idle = map[string]bool{
	"vocab_size": true, "rope.dimension_sections": true, "rope.scaling.finetuned": true, "tensor_data_layout": true,
	"attention.layer_norm_epsilon": true, "expert_shared_count": true, "pooling_type": true,
	"feed_forward_length": true, "expert_feed_forward_length": true, "expert_shared_feed_forward_length": true,
	"rope.scale_linear": true, "rope.scaling.factor": true, "rope.scaling.original_context_length": true,
	"full_attention_interval": true, "attention.recurrent_layers": true,
}

// has says whether the architecture has a key of that name.
func (k *keys) has(name string) bool {
	k.read[name] = true
	return k.f.Has(k.arch + "." + name)
}

// usual refuses another value than 1 or true, which is what is computed here.
func (k *keys) usual(name string) {
	if !k.has(name) {
		return
	}
	got, err := k.f.Float(k.arch + "." + name)
	if b, notBool := k.f.Bool(k.arch + "." + name); notBool == nil {
		got, err = 0, nil
		if b {
			got = 1
		}
	}
	if err != nil || got != 1 {
		k.fail("%s is %v, only 1 is supported", name, got)
	}
}

// unknown names the keys of the architecture that nothing read: a model with more to it than
// this code computes would give wrong answers.
func (k *keys) unknown() {
	for _, v := range k.f.Keys() {
		if name, ok := strings.CutPrefix(v.Key, k.arch+"."); ok && !k.read[name] && !idle[name] {
			k.fail("%s is not understood", name)
		}
	}
}

// fail records an error about a key of the architecture; format begins with its name.
func (k *keys) fail(format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("metadata key "+k.arch+"."+format, args...))
}

// int reads an integer from lo to hi; absent, it is fallback (which is not
// checked: it was derived from checked values).
func (k *keys) int(name string, fallback, lo, hi int) int {
	key := k.arch + "." + name
	if !k.has(name) {
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

// heads reads a number of heads that some files give for each layer.
// Layers without such heads say 0; the others must agree.
func (k *keys) heads(name string, fallback int) int {
	key := k.arch + "." + name
	k.read[name] = true
	all, err := k.f.Ints(key)
	if err != nil || len(all) == 1 { // a scalar, absent or wrong: int says which
		return k.int(name, fallback, 1, headsMax)
	}
	n := int64(0)
	for i, v := range all {
		if v < 0 || v > int64(headsMax) || v != 0 && n != 0 && v != n {
			k.fail("%s[%d] is %d, want 0, or one number from 1 to %d for all layers", name, i, v, headsMax)
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
	if !k.has(name) {
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
	if !k.has(name) {
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

// get reads a value as its type; absent or wrong, it is fallback.
func get[T any](k *keys, name string, as func(key string) (T, error), fallback T) T {
	if !k.has(name) {
		return fallback
	}
	v, err := as(k.arch + "." + name)
	if err != nil {
		k.errs = append(k.errs, err)
		return fallback
	}
	return v
}
