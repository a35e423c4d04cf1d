package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// What a translator writes goes to clients, so it is looked at before, as
// cheaply as that can be: see checkFrames and checkBody.
var (
	errNoFrames    = errors.New("there is not one server-sent event")
	errFrameBegin  = errors.New(`it does not begin with a field of a server-sent event: data, event, id, retry or a comment`)
	errFrameEnd    = errors.New("it does not end with the empty line that ends a server-sent event")
	errLines       = errors.New("it is not whole lines that each begin with { and end with }")
	errNotUTF8     = errors.New("it is not UTF-8; a rune may not continue in the next group")
	errTextNotUTF8 = errors.New("its text is not UTF-8; what a rune lacks is to be held back")
	errBodyNotJSON = errors.New("the body is not JSON")
	errNoObject    = errors.New("the body is no JSON object, which begins with {")
	errNoStreams   = errors.New(`the body says "stream": true, and with framing json there are no streams`)
	errNoArray     = errors.New(`the body says "stream_array": true, and the manifest has no array`)
)

// frameFields begin the lines of server-sent events.
var frameFields = [...]string{"data:", "event:", ":", "id:", "retry:"}

// checkFrames checks the bytes of one event group: none, or whole server-sent
// events in UTF-8. That the first line is a field tells events from other text;
// what the fields hold is the module's.
func checkFrames(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if string(b[:min(5, len(b))]) != "data:" && !beginsFrame(b) { // most do
		return errFrameBegin
	}
	if !bytes.HasSuffix(b, []byte("\n\n")) && !bytes.HasSuffix(b, []byte("\r\n\r\n")) {
		return errFrameEnd
	}
	if !utf8.Valid(b) {
		return errNotUTF8
	}
	return nil
}

// checkLines checks the bytes of one event group of newline-delimited JSON: none, or
// whole lines of objects in UTF-8.
func checkLines(b []byte) error {
	for line := range bytes.Lines(b) {
		if n := len(line); n < 3 || line[0] != '{' || line[n-2] != '}' || line[n-1] != '\n' {
			return errLines
		}
	}
	if !utf8.Valid(b) {
		return errNotUTF8
	}
	return nil
}

// checkStream checks the bytes of one event group by the module's framing.
func checkStream(b []byte, framing string) error {
	if framing == FramingNDJSON || framing == framingEither && len(b) > 0 && b[0] == '{' {
		return checkLines(b)
	}
	return checkFrames(b)
}

func beginsFrame(b []byte) bool {
	for _, field := range frameFields {
		if len(b) >= len(field) && string(b[:len(field)]) == field {
			return true
		}
	}
	return false
}

// checkRequest checks the body of a request that a translator made. What is in it
// the node checks like what a client sends, which may begin with white space: a module may copy it.
func checkRequest(b []byte) error {
	if object := bytes.TrimLeft(b, " \t\r\n"); len(object) > 0 && object[0] != '{' {
		return errNoObject
	}
	return checkBody(b)
}

// checkAsked checks that a request that the module made asks for no stream that it cannot write: nobody
// could be answered. Where no body can, it is not looked at.
func (m *Routing) checkAsked(frame []byte) *Fault {
	if frame[0] != byte(abi.StatusOK) || m.Framing == "" {
		return nil
	}
	t, _ := abi.ParseTranslated(frame[abi.OutputHeader:]) // CheckOutput decoded it before
	if m.Framing != FramingJSON && (m.Array || !bytes.Contains(t.Body, []byte("stream_array"))) {
		return nil
	}
	var asked map[string]json.RawMessage
	if json.Unmarshal(t.Body, &asked) != nil || string(asked["stream"]) != "true" {
		return nil
	}
	err := errNoStreams
	if m.Framing != FramingJSON {
		if err = errNoArray; string(asked["stream_array"]) != "true" {
			return nil
		}
	}
	return Faultf(CauseProtocol, "its output for op %v, %d bytes: %v", abi.OpRequest, len(frame), err)
}

// checkBody checks the body of an answer that is no stream.
func checkBody(b []byte) error {
	switch {
	case !utf8.Valid(b):
		return errNotUTF8
	case !json.Valid(b):
		return errBodyNotJSON
	}
	return nil
}

// checkGroup says that the output of an event group is all right, as CheckOutput and
// checkWritten would: it decodes it once, as there is one for nearly every event. Of
// what it does not take they say what is wrong.
func checkGroup(frame []byte, framing string) bool {
	const header = abi.OutputHeader + 4 // and the length of the state
	if len(frame) < header || abi.Uint32(frame, 0) != uint32(abi.StatusOK) || abi.Uint32(frame, 4) != uint32(len(frame)-abi.OutputHeader) {
		return false
	}
	state := abi.Uint32(frame, abi.OutputHeader)
	if state > abi.StateBytesMax || int(state) > len(frame)-header {
		return false
	}
	return checkStream(frame[header+int(state):], framing) == nil
}

// CheckOutput decodes an output as its user will, so that a malformed one is
// found while the instance that gave it is still in hand.
func CheckOutput(op abi.Op, frame []byte) *Fault {
	o, err := abi.ParseOutput(frame)
	if err != nil {
		return Faultf(CauseProtocol, "its output of %d bytes is no output frame", len(frame))
	}
	switch o.Status {
	case abi.StatusDecline:
		return nil
	case abi.StatusError:
		if op != abi.OpRequest && op != abi.OpModels && op != abi.OpRewrite {
			return Faultf(CauseProtocol, "it refuses in op %v, which only a request may be", op)
		}
		_, err = abi.ParseRefusal(o.Payload)
	default:
		err = checkPayload(op, o.Payload)
	}
	if err != nil {
		return Faultf(CauseProtocol, "its output for op %v, %d bytes%s", op, len(frame), malformed(op, o))
	}
	return nil
}

// malformed says why an output does not decode, as far as that is a bound that it passes.
func malformed(op abi.Op, o abi.Output) string {
	p := o.Payload
	switch {
	case op == abi.OpDecide && len(p) > 0 && abi.Verdict(p[0]) > abi.Reserve:
		return fmt.Sprintf(": its verdict %d is none", p[0])
	case op == abi.OpDecide && len(p)-8 > abi.RefusalBytesMax && abi.Verdict(p[0]) != abi.Reserve:
		return fmt.Sprintf(": its message of %d bytes is over %d", len(p)-8, abi.RefusalBytesMax)
	case op == abi.OpCharge && len(p) >= 16 && abi.Uint32(p, 12) > abi.LinesMax:
		return fmt.Sprintf(": its %d lines are over %d", abi.Uint32(p, 12), abi.LinesMax)
	}
	bound, ok := sectionBounds[op]
	if ok && o.Status == abi.StatusOK && len(p) >= 4 {
		if n := int64(abi.Uint32(p, 0)); n > int64(bound.most) && n <= int64(len(p)-4) {
			return fmt.Sprintf(": its %s of %d bytes is over %d", bound.what, n, bound.most)
		}
	}
	return ", does not decode"
}

// sectionBounds are of what a record of the op begins with.
var sectionBounds = map[abi.Op]struct {
	what string
	most int
}{
	abi.OpRequest: {"kept", abi.KeptBytesMax}, abi.OpEvents: {"state", abi.StateBytesMax}, abi.OpFilter: {"state", abi.FilterStateMax},
}

func checkPayload(op abi.Op, payload []byte) (err error) {
	switch op {
	case abi.OpRequest:
		_, err = abi.ParseTranslated(payload)
	case abi.OpEvents:
		_, err = abi.ParseWritten(payload)
	case abi.OpQuote:
		_, err = abi.ParseQuote(payload)
	case abi.OpCharge:
		_, err = abi.ParseCharge(payload)
	case abi.OpDecide:
		_, err = abi.ParseDecision(payload)
	case abi.OpFilter:
		_, err = abi.ParseFiltered(payload)
	}
	return err
}

// CheckError checks what the module wrote for a failure: the frames that end a stream,
// or a body.
func (m *Routing) CheckError(written []byte, stream bool) error {
	return checkFailure(written, stream, m.written())
}

func checkFailure(written []byte, stream bool, framing string) error {
	if !stream {
		return checkBody(written)
	}
	if len(written) == 0 {
		return errNoFrames
	}
	return checkStream(written, framing)
}

// CheckRules holds an output of a module to what every call is held to while it serves, which
// is more than CheckOutput asks. No quote is known of a charge.
func CheckRules(m probe.Module, op abi.Op, in, frame []byte) error {
	out, err := abi.ParseOutput(frame)
	if err != nil || out.Status != abi.StatusOK {
		return err
	}
	var p *probe.Problem
	switch op { // what does not decode CheckOutput has told
	case abi.OpError:
		failed, _ := abi.ParseErrorInput(in)
		err = checkFailure(out.Payload, failed.Facts.Stream, m.Framing)
	case abi.OpQuote:
		q, _ := abi.ParseQuote(out.Payload)
		p = probe.CheckQuote(q, m.Counters)
	case abi.OpCharge:
		charged, _ := abi.ParseChargeInput(in)
		c, _ := abi.ParseCharge(out.Payload)
		p = probe.CheckCharge(c, charged, -1, m.Free)
	case abi.OpDecide:
		d, _ := abi.ParseDecision(out.Payload)
		p = probe.CheckDecision(d, m.Counters)
	default:
		if f := checkWritten(op, frame, false, m.Framing); f != nil {
			err = f
		}
	}
	if p != nil {
		err = errors.New(p.What)
	}
	return err
}

// checkWritten checks what a translator wrote for clients, or of their requests,
// in a frame that CheckOutput took. An error is checked by Routing.CheckError, whose caller
// knows whether a stream or a body is to be written. The requests of modules that
// ship are not looked at: their code is ours, and a body may be long.
func checkWritten(op abi.Op, frame []byte, shipped bool, framing string) *Fault {
	if frame[0] != byte(abi.StatusOK) {
		return nil
	}
	var err error
	switch payload := frame[abi.OutputHeader:]; op {
	case abi.OpRequest:
		if !shipped {
			t, _ := abi.ParseTranslated(payload)
			err = checkRequest(t.Body)
		}
	case abi.OpEvents:
		w, _ := abi.ParseWritten(payload)
		err = checkStream(w.Bytes, framing)
	case abi.OpResponse, abi.OpModels, abi.OpCount:
		err = checkBody(payload)
	case abi.OpRewrite:
		if len(payload) > 0 {
			err = checkRequest(payload)
		}
	case abi.OpFilter:
		if f, _ := abi.ParseFiltered(payload); !utf8.Valid(f.Text) {
			err = errTextNotUTF8
		}
	}
	if err != nil {
		return Faultf(CauseProtocol, "its output for op %v, %d bytes: %v", op, len(frame), err)
	}
	return nil
}
