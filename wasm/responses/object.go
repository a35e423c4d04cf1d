package responses

import (
	"strconv"

	"corenode/wasm/abi"
)

// outcome is how a response stands.
type outcome struct {
	status string
	cut    bool        // incomplete: the output budget is spent
	usage  *abi.Usage  // nil while unknown
	err    *streamFail // failed only
}

// ending reads the outcome from an answer's end frame.
func ending(answer abi.Frames, as special) outcome {
	o := outcome{status: completed}
	for frames := answer; ; {
		f, ok := frames.Next()
		if !ok {
			return o
		}
		if f.Kind == abi.EventEnd {
			o = endOf(&f, answer, as)
		}
	}
}

// endOf is the outcome that an answer's end frame tells of. A summary is completed also where its room was spent: most of one is
// worth more to a client than none, and what is not completed it would ask for again. One that has not begun by then is as any
// answer that is cut: a client would throw the conversation away for nothing.
func endOf(f *abi.Frame, answer abi.Frames, as special) outcome {
	u := f.Usage()
	o := outcome{status: completed, usage: &u}
	if f.Stop == abi.StopMaxTokens && !(as.summary && isSummary(answer, as)) {
		o.status, o.cut = incomplete, true
	}
	return o
}

// membersDefault are the echoed members of a request that said nothing, or of
// one that was not translated.
const membersDefault = `"instructions":null,"max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,` +
	`"reasoning":{"effort":null,"summary":null},"temperature":null,"text":{"format":{"type":"text"}},` +
	`"tool_choice":"auto","tools":[],"top_p":null,"truncation":"disabled"`

// appendResponse appends the response object. There is no time of completion
// in it: the module knows no clock.
func appendResponse(dst []byte, f *abi.Facts, k kept, o outcome, answer abi.Frames) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = append(dst, f.ID...) // [a-z0-9]
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, f.Created, 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, o.status...)
	dst = append(dst, `","background":false,"error":`...)
	if o.err != nil {
		dst = o.err.appendObject(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"incomplete_details":`...)
	if o.cut {
		dst = append(dst, `{"reason":"max_output_tokens"},`...)
	} else {
		dst = append(dst, "null,"...)
	}
	dst = append(dst, k.members...)
	dst = append(dst, `,"model":"`...)
	dst = abi.AppendEscaped(dst, f.Model)
	dst = append(dst, `","output":`...)
	dst = appendOutput(dst, f, answer, k, o)
	dst = append(dst, `,"previous_response_id":null,"service_tier":"default","store":false,"top_logprobs":0`...)
	if o.usage != nil {
		dst = appendUsage(append(dst, `,"usage":`...), *o.usage)
	}
	return append(dst, '}')
}

func appendUsage(dst []byte, u abi.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input(), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheRead, 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWrite, 10)
	dst = append(dst, `},"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	dst = append(dst, `},"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input()+u.Output, 10)
	return append(dst, '}')
}
