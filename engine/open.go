package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"corenode/engine/instant"
	"corenode/engine/kernel"
	"corenode/engine/model"
	"corenode/engine/modelfile"
	"corenode/engine/sample"
	"corenode/engine/template"
	"corenode/engine/tokenizer"
	"corenode/engine/trail"
)

// Kind names what computes a model's forward pass.
type Kind string

const (
	// CPU is the project's own kernels.
	CPU Kind = "cpu"
	// CUDA is a GPU, with kernels of the project's own.
	CUDA Kind = "cuda"
	// Instant computes nothing: its next token is a hash of the position. It
	// measures the node without a model, and serves nobody.
	Instant Kind = "instant"
)

// Options say how to serve one model. Zero values mean what their comment says.
type Options struct {
	Info
	Kind Kind
	// Path is a GGUF file or a folder of safetensors; Data holds a GGUF file instead when the
	// model is embedded.
	Path string
	Data []byte
	// Template replaces the file's chat template when not empty.
	Template string
	// TemplateDate is what a template that asks for the time is told; zero is the time
	// of each request, in UTC.
	TemplateDate time.Time
	// TemplateSchema shows the template the JSON schema that an answer is held to, as
	// response_schema: for a template that has a place for it.
	TemplateSchema bool
	// ThinkingMax is how many tokens a thought may have in front of an answer; 0 is no bound but the answer's own.
	ThinkingMax int
	// Defaults are for what neither a request nor the model file says, with a thought in front
	// of the answer or without, of a model of this architecture.
	Defaults func(architecture string, thinking bool) sample.Params
	// Configured changes them and what the file says as the operator wants it; nil = not.
	Configured func(*sample.Params)
	Cache      CacheOptions
	Batch      BatchOptions
	// Draft lets a step compute several tokens of a sequence, those that were drafted for it
	// with success. Answers are the same with and without.
	Draft   bool
	Threads int    // 0 = all processors
	PackDir string // folder for repacked weights, "" = none
	// OpenDevice opens the GPU of a CUDA engine and what computes on it, at the start and again after it was
	// lost; nil opens the first one of the system's driver, in a program that is built with the tag cuda.
	OpenDevice func() (kernel.Backend, error)
	Observer   Observer
	Trails     *trail.Log // keeps how prompts began; nil keeps nothing
	// StepTime is how long a step of an Instant engine takes: the pace of its streams.
	StepTime time.Duration
	// Model, where it is set, computes the steps of an Instant engine: a test's
	// way to known answers. nil outside of tests.
	Model func(*tokenizer.Tokenizer) Forwarder
}

// CacheOptions size the memory that outlives a step. A CUDA engine takes it at once, and for 0 what Divide
// gives it of the device.
type CacheOptions struct {
	PageTokens  int              // positions per page: 16, 32 or 64
	Bytes       int64            // KV pages, prefix cache included
	StateBytes  int64            // recurrent states, snapshots included
	HostBytes   int64            // of a GPU: snapshots beyond those, in page-locked memory of the host
	KV          kernel.KVType    // what K and V are stored as
	States      kernel.StateType // what recurrent states are stored as: of a GPU either type
	PinBytesMax int64            // most bytes an account's sessions pin
}

// BatchOptions bound the steps and the queue.
type BatchOptions struct {
	StepTokensMax  int
	SequencesMax   int
	ChunkTokens    int           // most prefill rows while others decode, a multiple of 64; 0 is no bound but the gap
	GapMax         time.Duration // longest that a sequence should wait for its next token, 0 = no bound
	GapStretchMax  int           // the same in gaps of a sequence that runs alone, 0 = no bound
	QueueMax       int
	QueueTokensMax int64
	QueueTimeout   time.Duration
	PauseAfter     time.Duration // a reader that stalls this long loses its pages
	CancelAfter    time.Duration // and this long, its request
}

// Load loads a model. The error names the file and what is wrong with it. Models on a GPU share it: after the last of them
// Divide says what memory each has, and how long its context is. No step loop begins before.
func Load(o Options) (*Engine, error) {
	e, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", o.ID, err)
	}
	return e, nil
}

func open(o Options) (*Engine, error) {
	file, err := openFile(o)
	if err != nil {
		return nil, err
	}
	o.Observer = cmp.Or(o.Observer, Observer(noObserver{}))
	e := &Engine{info: o.Info, options: o, file: file}
	if e.ownDefaults, err = o.defaults(file); err == nil {
		err = e.Configure(o.Configured)
	}
	if err == nil {
		err = e.loadText(o)
	}
	if err == nil {
		err = e.loadModel(o)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	file.ReleasePages()
	return e, nil
}

func openFile(o Options) (*modelfile.File, error) {
	if o.Data != nil {
		return modelfile.OpenBytes("embedded:"+o.ID, o.Data)
	}
	return modelfile.Open(o.Path)
}

// loadText loads what turns text into tokens and back.
func (e *Engine) loadText(o Options) (err error) {
	if e.tokenizer, err = tokenizer.FromFile(e.file); err != nil {
		return fmt.Errorf("load tokenizer: %w", err)
	}
	source := o.Template
	if source == "" {
		if source, err = e.file.String("tokenizer.chat_template"); err != nil {
			return fmt.Errorf("%w; name a template file in the config", err)
		}
	}
	return e.useTemplate(source)
}

func (e *Engine) useTemplate(source string) (err error) {
	if e.template, err = template.New(source); err != nil {
		return fmt.Errorf("load chat template: %w", err)
	}
	for _, name := range e.tokenizer.Rowless() {
		if strings.Contains(source, name) {
			return fmt.Errorf("the chat template has %q, the name of a token that the model has no row for; "+
				"one without that name will do: leave it out, in comments and in unused branches too", name)
		}
	}
	return e.findFormat(source)
}

// findFormat finds out what a template, and the tokens that it writes, say of prompts and answers.
func (e *Engine) findFormat(source string) error {
	bos, _ := e.tokenizer.BOS()
	e.bos, e.eos = e.textOf(bos), e.textOf(e.tokenizer.EOS())
	in := template.Input{GenerationPrompt: true, Thinking: true, BOS: e.bos, EOS: e.eos, Now: e.templateTime()}
	if err := e.template.Check(in); err != nil {
		return fmt.Errorf("chat template: %w; name a template file in the config", err)
	}
	e.format = chatFormatOf(formatSource{template: source, special: e.special, bytes: e.tokenizer.Bytes,
		render: func(msgs []template.Message) (string, error) {
			one := in
			one.Messages = msgs
			return e.template.Render(one)
		}})
	e.thinking = e.thinkingBound()
	return nil
}

// special is the id of a token that stands for its name, -1 without one.
func (e *Engine) special(name string) int32 {
	if id, ok := e.tokenizer.ID(name); ok && slices.Contains(e.tokenizer.Specials(), name) {
		return id
	}
	return -1
}

// textOf is the text of a token, "" for -1.
func (e *Engine) textOf(id int32) string {
	if id < 0 {
		return ""
	}
	return e.tokenizer.Text(id)
}

func (e *Engine) loadModel(o Options) error {
	config, err := model.ReadConfig(e.file)
	if err != nil {
		return err
	}
	e.info.ContextLength = cmp.Or(e.info.ContextLength, config.ContextLength)
	if e.info.OutputMax == 0 || e.info.OutputMax > e.info.ContextLength {
		e.info.OutputMax = e.info.ContextLength
	}
	if config.Vocab < e.tokenizer.Size() {
		return fmt.Errorf("the tokenizer has %d entries, the model %d rows", e.tokenizer.Size(), config.Vocab)
	}
	e.vocab, e.fileContext = config.Vocab, config.ContextLength
	if o.Kind == Instant {
		e.forwarder = instant.New(e.tokenizer, o.StepTime)
		if o.Model != nil {
			e.forwarder = o.Model(e.tokenizer)
		}
		e.memory = memory{pages: contextsMax * e.info.ContextLength / o.Cache.PageTokens, pageBytes: 1}
		return nil
	}
	if err := e.loadWeights(o); err != nil {
		return err
	}
	e.computes, e.packError = e.backend.Name(), e.forwarder.(*model.Model).SealError()
	if _, ok := e.backend.(hasMemory); ok {
		return nil // Divide sizes it
	}
	if err := e.size(o); err != nil {
		e.forwarder.Close()
		return err
	}
	return nil
}

// size fixes the model's memory, and with it the context.
func (e *Engine) size(o Options) (err error) {
	if e.memory, err = sizeMemory(o, e.forwarder.(*model.Model), e.info.ContextLength); err != nil {
		return err
	}
	return e.fitContext(o)
}

// fitContext holds the promise of the context length: a request that fits it
// must fit the page pool. A length from the file gives way to the memory, one
// from the config does not.
func (e *Engine) fitContext(o Options) error {
	fits := e.memory.pages * o.Cache.PageTokens
	if fits >= e.info.ContextLength {
		return nil
	}
	if o.ContextLength > 0 {
		return noRoomForContext(o.ID, o.ContextLength, o.Cache, e.memory.pageBytes)
	}
	e.info.ContextLength = fits
	e.info.OutputMax = min(e.info.OutputMax, fits)
	return nil
}
