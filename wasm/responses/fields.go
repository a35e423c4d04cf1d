package responses

import (
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
	"repetition_penalty", "min_tokens", "ignore_eos", "grammar", "structured_outputs", "echo", "best_of", "suffix", "guided_",
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
func (r *request) field(s *scan.Scanner) {
	name := string(s.Key())
	i := fieldIndex(name)
	if i < 0 {
		return
	}
	if r.seen>>i&1 != 0 && fieldNames[i] != guided {
		r.fail(name, "the field is there twice")
		return
	}
	if s.Null() {
		return
	}
	r.seen |= 1 << i
	switch name {
	case "model":
		if r.model = r.str(s); r.err == nil && len(r.model) == 0 {
			r.fail(name, "must not be empty")
		}
	case "input":
		r.input(s)
	case "instructions":
		r.instructions = r.str(s)
		r.echo.text(echoInstructions, r.instructions)
	case "tools":
		r.readTools(s, top)
	case "tool_choice":
		r.readChoice(s)
	case "parallel_tool_calls":
		parallel := r.boolean(s)
		r.sequential = !parallel
		r.echo.flag(echoParallel, parallel)
	case "max_output_tokens":
		r.readMaxTokens(s)
	case "temperature":
		r.temperature = r.number(s)
		r.echo.raw(echoTemperature, r.temperature)
	case "top_p":
		r.topP = r.number(s)
		r.echo.raw(echoTopP, r.topP)
	case "repetition_penalty":
		r.repetition = r.number(s)
	case "min_tokens":
		if n, ok := r.integer(s, name); ok && n < 0 {
			r.fail(name, strconv.FormatInt(n, 10)+" is under 0")
		} else {
			r.minTokens = n
		}
	case "ignore_eos":
		r.ignoreEOS = r.boolean(s)
	case "reasoning":
		r.readReasoning(s)
	case "text":
		r.readText(s)
	case "metadata":
		r.readMetadata(s)
	case "stream":
		r.stream = r.boolean(s)
	case "truncation":
		r.truncation(s)
	case "include":
		r.include(s)
	default:
		r.refused(s, name)
	}
}

// refused are the fields that would change what happens to the answer and that
// a service without memory cannot honour; some have a value that asks for nothing.
func (r *request) refused(s *scan.Scanner, name string) {
	switch name {
	case "store":
		if r.boolean(s) {
			r.fail(name, `this service keeps no responses; leave it out or set "store": false`)
		}
	case "background":
		if r.boolean(s) {
			r.fail(name, "this service does not answer in the background")
		}
	case "top_logprobs":
		if n, ok := r.integer(s, name); ok && n != 0 {
			r.fail(name, "this service does not support it")
		}
	case "previous_response_id":
		r.fail(name, "this service keeps no responses; send the whole conversation as input")
	case "conversation":
		r.fail(name, "this service keeps no conversations; send the whole conversation as input")
	case "prompt":
		r.fail(name, "this service keeps no prompts; send the text as instructions or input")
	default:
		if !r.neutral(s, name) {
			r.fail(name, "this service does not support it")
		}
	}
}

// neutral reads a field that would change the answer and that no protocol of
// this service can honour, and says whether its value asks for nothing.
func (r *request) neutral(s *scan.Scanner, name string) bool {
	switch name {
	case "n":
		n, ok := r.integer(s, name)
		return ok && n == 1
	case "logprobs":
		return !r.boolean(s)
	case "logit_bias":
		return r.want(s, top, scan.Object) && empty(s)
	case "mcp_servers":
		return r.want(s, top, scan.Array) && empty(s)
	case "modalities":
		return r.want(s, top, scan.Array) && onlyText(s)
	case "audio", "prediction", "web_search_options", "container":
		return false
	}
	switch string(s.Raw()) { // fields of other servers
	case "false", "1", `""`:
		return true
	}
	return false
}

// empty reads an object or array and says whether it has no members.
func empty(s *scan.Scanner) bool {
	n := 0
	for s.Open(); s.Next(); {
		n++
	}
	return n == 0
}

func onlyText(s *scan.Scanner) bool {
	only := true
	for s.Open(); s.Next(); {
		v, ok := s.Text()
		only = only && ok && string(v) == "text"
	}
	return only
}

// include reads what else the client wants to see. Of what the protocol knows
// only the probabilities would be missed: the rest is of tools that run on a
// service's side, or the mark that makes clients send thinking back.
func (r *request) include(s *scan.Scanner) {
	if !r.want(s, top, scan.Array) {
		return
	}
	for s.Open(); r.err == nil && s.Next(); {
		switch string(word(r.str(s))) {
		case "message.output_text.logprobs":
			r.fail(s.Path(), "this service does not support it")
		case "reasoning.encrypted_content":
			r.flags |= keptEncrypted
		}
	}
}

func (r *request) str(s *scan.Scanner) []byte {
	if !r.want(s, top, scan.String) {
		return nil
	}
	text, ok := s.Str()
	if !ok {
		r.syntax(s, top)
	}
	return text
}

func (r *request) boolean(s *scan.Scanner) bool {
	if !r.want(s, top, scan.Bool) {
		return false
	}
	v, ok := s.Bool()
	if !ok {
		r.syntax(s, top)
	}
	return v
}

func (r *request) number(s *scan.Scanner) []byte {
	if !r.want(s, top, scan.Number) {
		return nil
	}
	text, ok := s.Number()
	if !ok {
		r.syntax(s, top)
	}
	return text
}

// integer reads a number that is an integer, however it is written.
func (r *request) integer(s *scan.Scanner, path string) (n int64, ok bool) {
	text := r.number(s)
	if r.err != nil {
		return 0, false
	}
	if n, ok = scan.Integer(text); !ok {
		r.fail(path, "want an integer")
	}
	return n, ok
}

func (r *request) readMaxTokens(s *scan.Scanner) {
	n, ok := r.integer(s, "max_output_tokens")
	if !ok {
		return
	}
	if n < 1 {
		r.fail("max_output_tokens", strconv.FormatInt(n, 10)+" is under 1")
		return
	}
	r.maxTokens = n
	r.echo.raw(echoMaxTokens, strconv.AppendInt(nil, n, 10))
}

func (r *request) truncation(s *scan.Scanner) {
	text := r.str(s)
	if r.err != nil {
		return
	}
	switch string(word(text)) {
	case "auto", "disabled": // a prompt that does not fit is refused either way
		r.echo.text(echoTruncation, text)
	default:
		r.fail("truncation", quote(word(text))+" is not one of auto, disabled")
	}
}
