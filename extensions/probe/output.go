package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"corenode/wasm/abi"
)

// Malformed says what is wrong with an output as its reader will see it; ""
// when nothing is. Package extensions has checked the frame and the record.
func Malformed(op abi.Op, in, frame []byte, framing string) string {
	out, err := abi.ParseOutput(frame)
	if err != nil {
		return fmt.Sprintf("the output of %d bytes is no output frame", len(frame))
	}
	if out.Status != abi.StatusOK {
		return refusalProblem(op, out)
	}
	switch op {
	case abi.OpRequest:
		t, err := abi.ParseTranslated(out.Payload)
		if err != nil {
			return "the translated request is no such record"
		}
		return jsonProblem(t.Body)
	case abi.OpEvents:
		w, err := abi.ParseWritten(out.Payload)
		if err != nil {
			return "what was written is no such record"
		}
		return framed(w.Bytes, framing)
	case abi.OpResponse:
		if framing != "" {
			return valueProblem(out.Payload)
		}
		return jsonProblem(out.Payload)
	case abi.OpModels, abi.OpCount:
		return valueProblem(out.Payload)
	case abi.OpError:
		if e, err := abi.ParseErrorInput(in); err == nil && e.Facts.Stream {
			return framed(out.Payload, framing)
		}
		if framing != "" {
			return valueProblem(out.Payload)
		}
		return jsonProblem(out.Payload)
	case abi.OpDecide:
		if _, err := abi.ParseDecision(out.Payload); err != nil {
			return "the decision is no such record"
		}
	case abi.OpRewrite:
		if len(out.Payload) > 0 {
			return jsonProblem(out.Payload)
		}
	case abi.OpFilter:
		f, err := abi.ParseFiltered(out.Payload)
		asked, _ := abi.ParseFilterInput(in)
		switch {
		case err != nil:
			return "what it gives is no such record, or holds back more than 256 bytes"
		case !utf8.Valid(f.Text):
			return "the text is not UTF-8"
		case asked.Last && len(f.State) > 0:
			return "the block has ended, and it holds something back"
		}
	}
	return ""
}

func refusalProblem(op abi.Op, out abi.Output) string {
	switch {
	case out.Status == abi.StatusDecline && len(out.Payload) > 0:
		return "it declines with a payload"
	case out.Status == abi.StatusDecline:
		return ""
	case op != abi.OpRequest && op != abi.OpModels && op != abi.OpRewrite:
		return "it refuses, which only a request may be"
	case op == abi.OpModels && out.Kind == abi.ModelNotFound:
	case out.Kind != abi.InvalidRequest:
		return fmt.Sprintf("it refuses with kind %v, which must be invalid_request", out.Kind)
	}
	r, err := abi.ParseRefusal(out.Payload)
	switch {
	case err != nil:
		return "the refusal is no such record"
	case r.Msg == "":
		return "it refuses without saying why"
	case !utf8.ValidString(r.Msg) || !utf8.ValidString(r.Param):
		return "its refusal is no UTF-8"
	}
	return ""
}

// LongRefusal says whether an output is a refusal that a node cuts.
func LongRefusal(frame []byte) bool {
	out, err := abi.ParseOutput(frame)
	if err != nil || out.Status != abi.StatusError {
		return false
	}
	r, err := abi.ParseRefusal(out.Payload)
	return err == nil && max(len(r.Msg), len(r.Param)) > abi.RefusalBytesMax
}

// framed says what is wrong with bytes of a stream. What the events of a module with routes hold is its own.
func framed(b []byte, framing string) string {
	if framing != "ndjson" && !(framing == "sse or array" && bytes.HasPrefix(b, []byte("{"))) {
		if problem := eventsProblem(b); problem != "" || framing != "" {
			return problem
		}
		return streamProblem(b)
	}
	for line := range bytes.Lines(b) {
		if problem := jsonProblem(line); problem != "" || line[0] != '{' || !bytes.HasSuffix(line, []byte("}\n")) {
			return "a line of the stream is no JSON object, or not whole: " + excerpt(line)
		}
	}
	return ""
}

// valueProblem says why a body is not one JSON value.
func valueProblem(body []byte) string {
	switch {
	case !utf8.Valid(body):
		return "the body is no UTF-8: " + excerpt(body)
	case !json.Valid(body):
		return "the body is no JSON: " + excerpt(body)
	}
	return ""
}

// jsonProblem says why a body is not one JSON object.
func jsonProblem(body []byte) string {
	switch {
	case !utf8.Valid(body):
		return "the body is no UTF-8: " + excerpt(body)
	case !json.Valid(body) || bytes.TrimSpace(body)[0] != '{':
		return "the body is no JSON object: " + excerpt(body)
	}
	return ""
}

// eventsProblem says why bytes are no whole server-sent events, by what a node looks at before they leave.
func eventsProblem(b []byte) string {
	begins := func(field string) bool { return bytes.HasPrefix(b, []byte(field)) }
	switch {
	case len(b) == 0:
	case !utf8.Valid(b):
		return "the stream's bytes are no UTF-8: " + excerpt(b)
	case !bytes.HasSuffix(b, []byte("\n\n")) && !bytes.HasSuffix(b, []byte("\r\n\r\n")):
		return "the stream's bytes end within an event: " + excerpt(b[max(0, len(b)-80):])
	case !slices.ContainsFunc([]string{"data:", "event:", ":", "id:", "retry:"}, begins):
		return "the stream's bytes do not begin with a field of an event: " + excerpt(b)
	}
	return ""
}

// streamProblem says why events are none whose data are JSON objects, but for the mark that ends a chat stream.
func streamProblem(b []byte) string {
	for line := range bytes.Lines(b) {
		line = bytes.TrimRight(line, "\r\n")
		data, is := bytes.CutPrefix(line, []byte("data:"))
		data = bytes.TrimPrefix(data, []byte(" "))
		switch {
		case is && string(data) != "[DONE]" && jsonProblem(data) != "":
			return "a line of data: " + jsonProblem(data)
		case !is && len(line) > 0 && line[0] != ':' && !bytes.HasPrefix(line, []byte("event:")) &&
			!bytes.HasPrefix(line, []byte("id:")) && !bytes.HasPrefix(line, []byte("retry:")):
			return "a line of the stream is no field: " + excerpt(line)
		}
	}
	return ""
}

// excerptMax is what a message shows of bytes.
const excerptMax = 100

func excerpt(b []byte) string {
	if len(b) > excerptMax {
		return strconv.Quote(string(b[:excerptMax])) + "..."
	}
	return strconv.Quote(string(b))
}

// FirstDifference shows where two outputs part.
func FirstDifference(got, want []byte) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	from := max(0, at-20)
	return fmt.Sprintf("at byte %d, %s instead of %s", at, excerpt(got[min(from, len(got)):]), excerpt(want[min(from, len(want)):]))
}
