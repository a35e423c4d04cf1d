package ollama

import (
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// options are the options that the node honors: texts of numbers, nil for none.
type options struct {
	predict, temperature, topP, topK, minP, seed []byte
	repeat, presence, frequency                  []byte
	stops                                        []byte // each with a comma before it
	window                                       int64  // repeat_last_n: how far back penalties look; wholeText unless it is said
}

// wholeText is the repeat_last_n of penalties as the node has them.
const wholeText = -1

// readOptions reads the options. Those about how a model is loaded do nothing
// here, and are ignored like unknown ones.
func (r *request) readOptions() {
	r.options = options{window: wholeText}
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		r.option(string(r.S.Key()))
	}
}

func (r *request) option(name string) {
	o := &r.options
	switch name {
	case "num_predict": // up to 0 it is no bound
		o.predict = r.positive()
	case "temperature":
		o.temperature = r.Number()
	case "top_p":
		o.topP = r.Number()
	case "top_k": // up to 0 it keeps all
		if o.topK = r.positive(); o.topK == nil {
			o.topK = []byte("0")
		}
	case "min_p":
		o.minP = r.Number()
	case "seed":
		o.seed = r.Seed()
		if n, _ := scan.Integer(o.seed); n == -1 { // any
			o.seed = nil
		}
	case "repeat_penalty":
		o.repeat = r.Number()
	case "presence_penalty":
		o.presence = r.Number()
	case "frequency_penalty":
		o.frequency = r.Number()
	case "repeat_last_n":
		o.window, _ = r.Integer(wholeText, "an integer")
	case "stop":
		o.stops, _ = r.Stops(nil)
	case "typical_p", "tfs_z":
		n, _ := r.S.Int()
		r.neutral(r.S.Path(), n == 1, unsupported)
	case "mirostat":
		n, ok := r.S.Int()
		r.neutral(r.S.Path(), ok && n == 0, unsupported)
	case "penalize_newline":
		v, _ := r.S.Bool()
		r.neutral(r.S.Path(), v, unsupported)
	case "embedding_only", "vocab_only", "logits_all":
		v, ok := r.S.Bool()
		r.neutral(r.S.Path(), ok && !v, unsupported)
	}
}

// positive reads an integer; nil for one that is not over 0.
func (r *request) positive() []byte {
	n, ok := r.S.Int()
	if !ok {
		r.Fail(r.S.Path(), "want an integer")
	}
	if n <= 0 {
		return nil
	}
	return field.Decimal(n)
}

// check refuses penalties that look back less far than the node's. At 0 they
// look at nothing, which is the same as none.
func (o *options) check(r *request) {
	penalties := !noPenalty(o.repeat, 1) || !noPenalty(o.presence, 0) || !noPenalty(o.frequency, 0)
	switch {
	case o.window == 0:
		o.repeat, o.presence, o.frequency = []byte("1"), []byte("0"), []byte("0")
	case o.window != wholeText && penalties:
		r.Fail("options.repeat_last_n", "penalties look at the whole text here: only -1 and 0 are supported")
	}
}

// noPenalty says whether a penalty is the one that does nothing, as one that is not there.
func noPenalty(penalty []byte, none int64) bool {
	n, ok := scan.Integer(penalty)
	return penalty == nil || ok && n == none
}

// append appends the native fields, each with a comma before it.
func (o *options) append(dst []byte) []byte {
	for _, p := range [...]struct {
		name  string
		value []byte
	}{
		{"max_tokens", o.predict}, {"temperature", o.temperature}, {"top_p", o.topP}, {"top_k", o.topK}, {"min_p", o.minP},
		{"seed", o.seed}, {"repetition_penalty", o.repeat}, {"presence_penalty", o.presence}, {"frequency_penalty", o.frequency},
	} {
		dst = field.AppendMember(dst, p.name, p.value)
	}
	return field.AppendArray(dst, "stop_sequences", o.stops)
}
