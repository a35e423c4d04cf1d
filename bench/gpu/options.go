// Package gpu measures steps of a model of random weights on a GPU, in this process: decoding at several
// batches and contexts beside the bytes that a step has to move, prompts beside the arithmetic that they need.
// What the device can do at most is measured in the same run. Nothing is downloaded: the weights are random, and
// a model of that shape is a file of holes whose matrices are made as they are loaded.
//
// What decides is in floor.go and summary.go and knows no device; what waits is in measure.go.
package gpu

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"corenode/bench/option"
	"corenode/engine/kernel"
	"corenode/engine/model"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	Interpret bool `json:"interpret"`
	Shape
	Type    string        `json:"type"`
	States  string        `json:"states"`
	Decode  []string      `json:"decode"`  // BATCHxCONTEXT
	Prefill []string      `json:"prefill"` // tokens
	Steps   int           `json:"steps"`
	Rows    int           `json:"rows_per_step"` // of a prompt
	Kernels bool          `json:"kernels"`
	Copy    int           `json:"copy_mib"`
	Product int           `json:"product"`
	TFLOPS  float64       `json:"known_tflops"`
	Limit   time.Duration `json:"limit_ns"`

	Tune         string   `json:"-"` // a file for a table of launch shapes
	Node         string   `json:"-"` // a program to measure over HTTP
	Streams      []string `json:"streams,omitempty"`
	StreamPrompt int      `json:"stream_prompt_tokens"`
	StreamTokens int      `json:"stream_tokens"`

	Each string `json:"-"` // a file that has the report after each cell
	Page string `json:"-"`
}

// Shape is the shape of a model with gated attention, DeltaNet layers and experts.
type Shape struct {
	Layers      int `json:"layers"`
	Hidden      int `json:"hidden"`
	Heads       int `json:"heads"`
	KVHeads     int `json:"kv_heads"`
	HeadDim     int `json:"head_dim"`
	KHeads      int `json:"linear_k_heads"`
	VHeads      int `json:"linear_v_heads"`
	StateDim    int `json:"state_dim"`
	Experts     int `json:"experts"`
	ExpertsUsed int `json:"experts_used"`
	Width       int `json:"expert_width"` // the shared one's, too
	Vocabulary  int `json:"vocabulary"`
}

// types are the storage types of matrices, by their option.
var types = map[string]kernel.Type{"bf16": kernel.BF16, "f16": kernel.F16, "q8_0": kernel.Q8_0, "q4_k": kernel.Q4_K, "fp8": kernel.F8E4M3}

// What is measured where nothing is said, from most to least important.
var (
	decodeDefault = []string{"64x4k", "1x4k", "16x4k", "256x4k", "64x1k", "1x1k", "16x1k", "256x1k",
		"1x32k", "16x32k", "64x32k", "256x32k"}
	prefillDefault = []string{"8k", "2k", "32k"}
	streamsDefault = []string{"64", "256"}
)

// contextMax bounds contexts and prompts, in tokens.
const contextMax = 1 << 18

// List describes the options. The defaults are the shape of Qwen3.5-35B-A3B.
func (o *Options) List() option.List {
	size := func(p *int, name string, value, high int, usage string) option.Option {
		return option.Int(p, name, value, 1, high, usage)
	}
	return option.List{
		option.New(&o.Interpret, "interpret", false, "use the interpreter of GPU kernels: a rehearsal, whose times mean nothing",
			(*pflag.FlagSet).BoolVar, fine[bool]),
		size(&o.Layers, "layers", 40, 1<<8, "layers, every fourth of which is attention"),
		size(&o.Hidden, "hidden", 2048, 1<<14, "width of the model"),
		size(&o.Heads, "heads", 16, 1<<8, "heads of attention"),
		size(&o.KVHeads, "kv-heads", 2, 1<<8, "heads of K and V"),
		size(&o.HeadDim, "head-dim", 256, 256, "width of a head"),
		size(&o.KHeads, "k-heads", 16, 1<<8, "key heads of DeltaNet"),
		size(&o.VHeads, "v-heads", 32, 1<<8, "value heads of DeltaNet"),
		size(&o.StateDim, "state-dim", 128, 128, "width of a state of DeltaNet"),
		size(&o.Experts, "experts", 256, 1<<10, "experts of a layer"),
		size(&o.ExpertsUsed, "experts-used", 8, 1<<6, "experts of a token"),
		size(&o.Width, "expert-width", 512, 1<<14, "inner width of an expert"),
		size(&o.Vocabulary, "vocabulary", 248320, 1<<20, "rows of the output matrix"),
		option.New(&o.Type, "type", "bf16", "storage of the matrices: bf16, f16, fp8, q8_0 or q4_k", (*pflag.FlagSet).StringVar, knownType),
		option.New(&o.States, "states", "f32", "storage of states in the cells: f32 or bf16",
			(*pflag.FlagSet).StringVar, knownStates),
		option.Texts(&o.Decode, "decode",
			"decoding to measure, as BATCHxCONTEXT, such as 64x4k, from most to least important; none: all of METHOD.md"),
		option.Texts(&o.Prefill, "prefill", "prompts to measure, in tokens; none: all of METHOD.md"),
		option.Int(&o.Steps, "steps", 32, 1, 1<<12, "steps of a decoding cell"),
		option.Int(&o.Rows, "rows", 8192, 32, model.RowsMax, "tokens of a prompt that one step computes"),
		option.New(&o.Kernels, "kernels", true, "one more step of each cell with events around every kernel",
			(*pflag.FlagSet).BoolVar, fine[bool]),
		option.Int(&o.Copy, "copy", 1024, 1, 1<<14, "MiB that the copy within the device's memory copies"),
		option.Int(&o.Product, "product", 8192, 32, 1<<14,
			"rows and columns of the product that is the ceiling of arithmetic"),
		option.Float(&o.TFLOPS, "tflops", 0, 0, 1e5,
			"ceiling of arithmetic that another program measured on this device; the larger one counts"),
		option.Duration(&o.Limit, "limit", 8*time.Minute, time.Second, option.Unlimited, "no cell begins after this"),
		option.Text(&o.Tune, "tune", "", "",
			"file to write the fastest launch shapes to, a table of engine/kernel/cuda/tune; no cells then but those that are named"),
		option.Text(&o.Node, "node", "", "", "a corenode-cuda program to measure over HTTP; no cells then but those that are named"),
		option.Texts(&o.Streams, "streams", "numbers of its streams at once; none: 64 and 256"),
		option.Int(&o.StreamPrompt, "stream-prompt", 128, 64, 1<<15, "tokens of their prompts"),
		option.Int(&o.StreamTokens, "stream-tokens", 256, 2, 1<<14, "tokens of their answers"),
		option.Text(&o.Each, "each", "", "", "file to write the result so far to after each cell"),
		option.Text(&o.Page, "html", "", "", "file to write a page with the tables to after each cell"),
		option.Check(o.check),
	}
}

// Defaults are the options of a run that was told nothing.
func Defaults() (o Options) {
	o.List().Reset()
	return o
}

// check finds shapes that no kernel takes, and cells that are none.
func (o *Options) check() error {
	_, err := o.cells()
	if o.Heads%max(o.KVHeads, 1) != 0 || o.VHeads%max(o.KHeads, 1) != 0 {
		err = errors.Join(err, errors.New("--heads is no multiple of --kv-heads, or --v-heads of --k-heads"))
	}
	if o.ExpertsUsed > o.Experts {
		err = errors.Join(err, fmt.Errorf("--experts-used is %d of %d", o.ExpertsUsed, o.Experts))
	}
	return errors.Join(err, o.checkNode())
}

// checkNode finds what a node cannot be asked.
func (o *Options) checkNode() error {
	if o.Node == "" {
		return nil
	}
	var errs []error
	if o.Vocabulary < vocabularyMin {
		errs = append(errs, fmt.Errorf("--vocabulary is %d, a node needs %d", o.Vocabulary, vocabularyMin))
	}
	for _, text := range o.Streams {
		if n, err := strconv.Atoi(text); err != nil || n < 1 || n > 256 {
			errs = append(errs, fmt.Errorf("--streams is %s, want 1 to 256", text))
		}
	}
	return errors.Join(errs...)
}

// cell is one thing that is measured.
type cell struct {
	prompt  bool
	batch   int // sequences; of a prompt 1
	context int // tokens in the cache before the first step; of a prompt its length
}

func (c cell) name() string {
	if c.prompt {
		return "prefill " + short(c.context)
	}
	return fmt.Sprintf("decode %d x %s", c.batch, short(c.context))
}

// cells are what is measured, from most to least important: the first of each kind come first.
func (o *Options) cells() ([]cell, error) {
	var errs []error
	var decode, prefill, all []cell
	if (o.Node != "" || o.Tune != "") && len(o.Decode)+len(o.Prefill) == 0 {
		return nil, nil
	}
	for _, text := range orElse(o.Decode, o.Prefill, decodeDefault) {
		batch, context, found := strings.Cut(text, "x")
		b, err1 := number(batch)
		c, err2 := number(context)
		if err := errors.Join(err1, err2); err != nil || !found || b < 1 || b > 256 || c < 1 || c > contextMax {
			errs = append(errs, fmt.Errorf("--decode is %s, want such as 64x4k, at most 256x%s", text, short(contextMax)))
		}
		decode = append(decode, cell{batch: b, context: c})
	}
	for _, text := range orElse(o.Prefill, o.Decode, prefillDefault) {
		n, err := number(text)
		if err != nil || n < 1 || n > contextMax {
			errs = append(errs, fmt.Errorf("--prefill is %s, want such as 8k, at most %s", text, short(contextMax)))
		}
		prefill = append(prefill, cell{prompt: true, batch: 1, context: n})
	}
	const decodeFirst = 4 // the gates; then the first prompt, then the others
	first := min(decodeFirst, len(decode))
	all = append(append(all, decode[:first]...), prefill...)
	return append(all, decode[first:]...), errors.Join(errs...)
}

// orElse is what is asked for; all where neither that nor the other is.
func orElse(asked, other, all []string) []string {
	if len(asked) == 0 && len(other) == 0 {
		return all
	}
	return asked
}

// number reads 4k as 4096.
func number(text string) (int, error) {
	digits, thousands := strings.CutSuffix(text, "k")
	n, err := strconv.Atoi(digits)
	if err != nil || n > contextMax {
		return 0, fmt.Errorf("%q is no such number", text)
	}
	if thousands {
		n <<= 10
	}
	return n, nil
}

// short writes 4096 as 4k.
func short(n int) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return strconv.Itoa(n>>10) + "k"
	}
	return strconv.Itoa(n)
}

func knownType(name string) string {
	if _, ok := types[name]; !ok {
		return name + ", want bf16, f16, fp8, q8_0 or q4_k"
	}
	return ""
}

func knownStates(name string) string {
	if _, err := kernel.ParseStateType(name); err != nil {
		return name + ", want f32 or bf16"
	}
	return ""
}

func fine[T any](T) string { return "" }
