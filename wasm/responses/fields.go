package responses

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"corenode/wasm/sdk/scan"
)

// fieldNames are the fields that count; all others are accepted and ignored.
var fieldNames = [...]string{
	"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens",
	"temperature", "top_p", "reasoning", "text", "store", "previous_response_id", "background", "conversation",
	"prompt", "include", "truncation", "stream", "top_logprobs", "metadata",
	"n", "logprobs", "logit_bias", "modalities", "mcp_servers", "audio", "prediction", "web_search_options", "container",
	"grammar", "regex", "ebnf", "json_schema", "structured_outputs", "guided_", "echo", "best_of", "suffix",
	"repetition_penalty", "repeat_penalty", "min_tokens", "ignore_eos", "stop", "seed", "top_k", "min_p", "presence_penalty",
	"frequency_penalty",
	"max_tokens", "max_completion_tokens", "response_format", "reasoning_effort",
}

// The fields of this name are many, and all of them are refused.
const guided = "guided_"

// fieldsOf has a bit for each field that begins with a byte: nearly all names
// that do not count are told by their first.
var fieldsOf = func() (first [256]uint64) {
	for i, name := range fieldNames {
		first[name[0]] |= 1 << i
	}
	return first
}()

func fieldIndex(name string) int {
	if name == "" {
		return -1
	}
	if strings.HasPrefix(name, guided) {
		name = guided
	}
	for set := fieldsOf[name[0]]; set != 0; set &= set - 1 {
		if i := bits.TrailingZeros64(set); fieldNames[i] == name {
			return i
		}
	}
	return -1
}

func (r *request) has(name string) bool { return r.seen>>fieldIndex(name)&1 != 0 }

// field reads one field of the body. It is one dispatch switch: the list of
// what the protocol knows.
func (r *request) field() {
	name := string(r.S.Key())
	i := fieldIndex(name)
	if i < 0 {
		return
	}
	if r.seen>>i&1 != 0 && fieldNames[i] != guided {
		r.Fail(name, "the field is there twice")
		return
	}
	if r.S.Null() {
		return
	}
	r.seen |= 1 << i
	switch name {
	case "model":
		if r.model = r.Str(); len(r.model) == 0 {
			r.Fail(name, "must not be empty")
		}
	case "input":
		r.input()
	case "instructions":
		r.instructions = r.Str()
		r.echo.text(echoInstructions, r.instructions)
	case "tools":
		r.readTools(&r.S, top)
	case "tool_choice":
		r.readChoice()
	case "parallel_tool_calls":
		parallel := r.Bool()
		r.sequential = !parallel
		r.echo.flag(echoParallel, parallel)
	case "max_output_tokens":
		r.readMaxTokens()
	case "temperature":
		r.sampling.Temperature = r.Number()
		r.echo.raw(echoTemperature, r.sampling.Temperature)
	case "top_p":
		r.sampling.TopP = r.Number()
		r.echo.raw(echoTopP, r.sampling.TopP)
	case "reasoning":
		r.readReasoning()
	case "text":
		r.readText()
	case "metadata":
		r.readMetadata()
	case "stream":
		r.stream = r.Bool()
	case "truncation":
		r.truncation()
	case "include":
		r.include()
	default:
		// What else says how an answer is made, the protocol lacks; clients of several send it all the same.
		if !r.sampling.Field(&r.Reader, []byte(name)) {
			r.refused(name)
		}
	}
}

// refused are the fields that would change what happens to the answer and that
// a service without memory cannot honor; some have a value that asks for nothing.
func (r *request) refused(name string) {
	switch name {
	case "store":
		if r.Bool() {
			r.Fail(name, `this service keeps no responses; leave it out or set "store": false`)
		}
	case "background":
		if r.Bool() {
			r.Fail(name, "this service does not answer in the background")
		}
	case "top_logprobs":
		if n, _ := r.Integer(math.MinInt64, "a number"); n != 0 {
			r.Fail(name, "this service does not support it")
		}
	case "previous_response_id":
		r.Refuse(name, "this service keeps no responses; send the whole conversation as input")
	case "conversation":
		r.Refuse(name, "this service keeps no conversations; send the whole conversation as input")
	case "prompt":
		r.Refuse(name, "this service keeps no prompts; send the text as instructions or input")
	case "max_tokens", "max_completion_tokens":
		r.Refuse(name, "here it is max_output_tokens")
	case "response_format":
		r.Refuse(name, "here it is text.format")
	case "reasoning_effort":
		r.Refuse(name, "here it is reasoning.effort")
	default:
		if r.neutral(name) {
			return
		}
		msg := "this service does not support it"
		switch {
		case strings.HasPrefix(name, guided), name == "grammar", name == "regex", name == "ebnf", name == "json_schema",
			name == "structured_outputs":
			msg += "; ask for JSON with text.format"
		}
		r.Refuse(name, msg)
	}
}

// neutral reads a field that would change the answer and that no protocol of
// this service can honor, and says whether its value asks for nothing.
func (r *request) neutral(name string) bool {
	switch name {
	case "n":
		n, _ := r.Integer(math.MinInt64, "a number")
		return n == 1 || !r.OK()
	case "logprobs":
		return !r.Bool()
	case "logit_bias":
		return r.Empty(scan.Object)
	case "mcp_servers":
		return r.Empty(scan.Array)
	case "modalities":
		return r.OnlyText()
	case "audio", "prediction", "web_search_options", "container":
		return false
	}
	return r.AsksNothing()
}

// include reads what else the client wants to see. Of what the protocol knows
// only the probabilities would be missed: the rest is of tools that run on a
// service's side, or there in any case.
func (r *request) include() {
	if !r.Open(scan.Array) {
		return
	}
	for r.S.Next() {
		if string(r.Text()) == "message.output_text.logprobs" {
			r.Fail(r.S.Path(), "this service does not support it")
		}
	}
}

func (r *request) readMaxTokens() {
	r.maxTokens, _ = r.Integer(1, "a number")
	r.echo.raw(echoMaxTokens, strconv.AppendInt(nil, r.maxTokens, 10))
}

func (r *request) truncation() {
	text := r.Str()
	switch string(word(text)) {
	case "auto", "disabled": // a prompt that does not fit is refused either way
		r.echo.text(echoTruncation, text)
	default:
		r.Fail("truncation", quote(word(text))+" is not one of auto, disabled")
	}
}
