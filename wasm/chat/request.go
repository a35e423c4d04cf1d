package chat

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// request is one body under translation. Raw fields are cut out of the body:
// numbers as they are, strings without their quotes. nil is absent or null.
type request struct {
	s   scan.Scanner
	in  scan.Scanner // of texts inside the body: the arguments of calls
	err *abi.Error   // the first thing wrong with the body as a request

	out      []byte // the native body, which begins with its messages
	count    int    // messages begun
	message  message
	legacyID []byte // of the last function_call, nil before there is one
	tools    []byte // the native tools, each with a comma before it
	named    []byte // tool_choice: the function's name

	model, maxTokens, maxCompletionTokens []byte
	temperature, topP, topK, minP, seed   []byte
	presence, frequency, repetition       []byte
	minTokens                             []byte

	stops    []byte // the native stop sequences, each with a comma before it
	stopText bool   // stop was a string
	choice   choice
	oneCall  bool // parallel_tool_calls was false
	stream   bool
	// ignoreEOS: the model's own end does not end the answer, as load tools want it.
	ignoreEOS bool
	usage     bool   // stream_options.include_usage
	silent    bool   // reasoning_effort or enable_thinking switch thinking off
	thinking  []byte // thinking.type, raw
	format    []byte // the native response_format, nil for plain text
}

// Request translates a chat completions body. Every error is of kind
// InvalidRequest, with the path of the field in the chat body.
func (Translator) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	r := &request{out: make([]byte, 0, len(in.Body)+len(in.Body)/8+512)}
	r.s.Reset(in.Body)
	if k := r.s.Kind(); k != scan.Object && r.s.Err() == nil {
		return abi.Translated{}, invalid("", "the body is "+k.String()+"; want a JSON object")
	}
	for r.s.Open(); r.s.Next(); {
		if name := r.s.Key(); !r.s.Null() {
			r.field(name)
		}
	}
	if r.err == nil && !r.s.End() {
		r.err = syntax(&r.s)
	}
	if r.err == nil {
		r.err = r.complete()
	}
	if r.err != nil {
		return abi.Translated{}, r.err
	}
	r.finish()
	return abi.Translated{Body: r.out, Kept: []byte{byte(r.kept())}}, nil
}

func syntax(s *scan.Scanner) *abi.Error {
	e := s.Err()
	if e.What == scan.Truncated && e.Offset == 0 {
		return invalid("", "the body is empty; want a JSON object")
	}
	switch e.What {
	case scan.TooDeep:
		return invalid("", "the body nests deeper than "+strconv.Itoa(scan.DepthMax)+" levels")
	case scan.Truncated, scan.Trailing: // at no field
		return invalid("", "the body is not valid JSON: "+e.Error())
	}
	return invalid(s.Path(), "the body is not valid JSON: "+e.Error())
}

// complete checks what only the whole body can tell.
func (r *request) complete() *abi.Error {
	switch {
	case len(r.model) == 0:
		return invalid("model", "field required, a model id")
	case len(r.out) == 0:
		return invalid("messages", "field required, at least one message")
	case r.choice >= choiceAny && len(r.tools) == 0:
		return invalid("tool_choice", "it forces a call, but there are no tools")
	case r.stream:
		return nil
	}
	if n, ok := scan.Integer(r.budget()); ok && n > outputMax {
		return invalid(r.budgetName(), strconv.FormatInt(n, 10)+" is over "+strconv.Itoa(outputMax)+
			", the most without streaming; set \"stream\": true for longer answers")
	}
	return nil
}

// budget is the most tokens to produce. max_completion_tokens is the newer
// name: given both, it counts.
func (r *request) budget() []byte {
	if r.maxCompletionTokens != nil {
		return r.maxCompletionTokens
	}
	return r.maxTokens
}

func (r *request) budgetName() string {
	if r.maxCompletionTokens != nil {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func (r *request) kept() (k kept) {
	if r.usage {
		k |= keptUsage
	}
	if r.maxCompletionTokens != nil {
		k |= keptCompletionTokens
	}
	if r.stopText {
		k |= keptStopText
	}
	return k
}

// finish closes the native body behind its messages.
func (r *request) finish() {
	r.out = append(r.out, `],"model":"`...)
	r.out = append(append(r.out, r.model...), '"')
	for _, p := range []struct {
		name  string
		value []byte
	}{
		{`,"max_tokens":`, r.budget()}, {`,"temperature":`, r.temperature}, {`,"top_p":`, r.topP},
		{`,"top_k":`, r.topK}, {`,"min_p":`, r.minP}, {`,"presence_penalty":`, r.presence},
		{`,"frequency_penalty":`, r.frequency}, {`,"repetition_penalty":`, r.repetition}, {`,"seed":`, r.seed},
		{`,"min_tokens":`, r.minTokens}, {`,"response_format":`, r.format},
	} {
		if p.value != nil {
			r.out = append(append(r.out, p.name...), p.value...)
		}
	}
	if len(r.stops) > 0 {
		r.out = append(append(r.out, `,"stop_sequences":[`...), r.stops[1:]...)
		r.out = append(r.out, ']')
	}
	if r.ignoreEOS {
		r.out = append(r.out, `,"ignore_eos":true`...)
	}
	if r.stream {
		r.out = append(r.out, `,"stream":true`...)
	}
	switch {
	case r.silent:
		r.out = append(r.out, `,"thinking":{"type":"disabled"}`...)
	case r.thinking != nil:
		r.out = append(append(r.out, `,"thinking":{"type":"`...), r.thinking...)
		r.out = append(r.out, `"}`...)
	}
	if len(r.tools) > 0 {
		r.out = append(append(r.out, `,"tools":[`...), r.tools[1:]...)
		r.out = r.appendChoice(append(r.out, ']'))
	}
	r.out = append(r.out, '}')
}

// fail keeps what is wrong with the field at path and ends the walk.
func (r *request) fail(path, msg string) {
	if r.err == nil && r.s.Err() == nil {
		r.err = invalid(path, msg)
	}
	r.s.Stop()
}

// want fails because the value the scanner stands before is of another kind.
func (r *request) want(what string) {
	if k := r.s.Kind(); k != scan.Invalid {
		r.fail(r.s.Path(), "want "+what+", not "+k.String())
	}
}

// str reads a string, raw.
func (r *request) str() []byte {
	raw, ok := r.s.Str()
	if !ok {
		r.want("a string")
		return nil
	}
	return raw
}

// text reads a string, unescaped.
func (r *request) text() []byte {
	text, ok := r.s.Text()
	if !ok {
		r.want("a string")
	}
	return text
}

func (r *request) bool() bool {
	v, ok := r.s.Bool()
	if !ok {
		r.want("a boolean")
	}
	return v
}

func (r *request) number() []byte {
	text, ok := r.s.Number()
	if !ok {
		r.want("a number")
	}
	return text
}

// integer reads a number without a fraction, at least min.
func (r *request) integer(min int64) []byte {
	text, ok := r.s.Number()
	if !ok {
		r.want("an integer")
		return nil
	}
	n, ok := scan.Integer(text)
	switch {
	case !ok:
		r.fail(r.s.Path(), "want an integer")
	case n < min:
		r.fail(r.s.Path(), strconv.FormatInt(n, 10)+" is under "+strconv.FormatInt(min, 10))
	}
	return text
}

// open steps into the object or array the scanner stands before.
func (r *request) open(k scan.Kind) bool {
	if r.s.Kind() != k {
		r.want(k.String())
		return false
	}
	return r.s.Open()
}
