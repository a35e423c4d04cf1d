package responses

import "corenode/wasm/abi"

// The members of a response object that echo the request.
const (
	echoInstructions = iota
	echoMaxTokens
	echoMetadata
	echoParallel
	echoReasoning
	echoTemperature
	echoText
	echoToolChoice
	echoTools
	echoTopP
	echoTruncation
	echoEnd
)

// echoNames and echoDefaults are their names and what they are when the request
// did not say. membersDefault is the same as one text.
var (
	echoNames = [echoEnd]string{
		"instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning", "temperature",
		"text", "tool_choice", "tools", "top_p", "truncation",
	}
	echoDefaults = [echoEnd]string{
		"null", "null", "{}", "true", `{"effort":null,"summary":null}`, "null",
		`{"format":{"type":"text"}}`, `"auto"`, "[]", "null", `"disabled"`,
	}
)

// echoes are the JSON texts of the members; nil for a default.
type echoes [echoEnd][]byte

func (e *echoes) raw(i int, text []byte) { e[i] = text }

func (e *echoes) text(i int, escaped []byte) {
	e[i] = append(append(append(make([]byte, 0, len(escaped)+2), '"'), escaped...), '"')
}

func (e *echoes) flag(i int, v bool) {
	e[i] = []byte("false")
	if v {
		e[i] = []byte("true")
	}
}

// size is how many bytes members will have.
func (e *echoes) size() int {
	n := 0
	for i := range e {
		n += len(echoNames[i]) + len(`"":,`) + max(len(e[i]), len(echoDefaults[i]))
	}
	return n
}

// fit makes the echo small enough: the largest member goes back to its default
// until the rest fits. A request that large is served; only its echo is not whole.
func (e *echoes) fit(most int) {
	for e.size() > most {
		largest := 0
		for i := range e {
			if len(e[i]) > len(e[largest]) {
				largest = i
			}
		}
		e[largest] = nil
	}
}

// append appends the members, separated by commas.
func (e *echoes) append(dst []byte) []byte {
	for i := range e {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), echoNames[i]...), `":`...)
		if e[i] == nil {
			dst = append(dst, echoDefaults[i]...)
		} else {
			dst = append(dst, e[i]...)
		}
	}
	return dst
}

// kept is what the answer must know of the request.
func (r *request) kept() []byte {
	k := kept{flags: r.flags, custom: r.custom}
	if r.sampling.StopText {
		k.flags |= keptStopText
	}
	if r.echo[echoTools] != nil {
		r.echo[echoTools] = append(r.echo[echoTools], ']')
	}
	for i, text := range r.echo {
		if text != nil { // a client's, which goes into a stream
			r.echo[i] = abi.AppendOneLine(make([]byte, 0, len(text)), text)
		}
	}
	head := 3 + len(k.custom)
	r.echo.fit(abi.KeptBytesMax - head)
	k.members = r.echo.append(make([]byte, 0, r.echo.size()))
	return k.append(make([]byte, 0, head+len(k.members)))
}
