package guest

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

func TestCheckFrames(t *testing.T) {
	for _, ok := range []string{"", "data: x\n\n", "data:x\r\n\r\n", "event: a\ndata: ü\n\ndata: b\n\n", ": comment\n\n",
		"id: 1\ndata: x\n\n", "retry: 5\n\n"} {
		if err := checkFrames([]byte(ok)); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for bad, want := range map[string]error{
		"x\n\n": errFrameBegin, "\n\n": errFrameBegin, `{"a":1}`: errFrameBegin, "dat": errFrameBegin,
		"data: x": errFrameEnd, "data: x\n": errFrameEnd, "data: x\n\ndata: y": errFrameEnd, "data: x\r\n": errFrameEnd,
		"data: \xff\n\n": errNotUTF8, "data: \xc3\n\n": errNotUTF8, // half of a rune
	} {
		if err := checkFrames([]byte(bad)); err != want {
			t.Errorf("%q: %v, want %v", bad, err, want)
		}
	}
}

func TestCheckLines(t *testing.T) {
	lines := &Routing{Framing: FramingNDJSON}
	for _, ok := range []string{"", "{}\n", "{\"a\":\"ü\"}\n{\"b\":[1]}\n"} {
		if err := checkStream([]byte(ok), FramingNDJSON); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for bad, want := range map[string]error{"\n": errLines, "{}": errLines, "{}\n\n": errLines, "{}\r\n": errLines, "{}\n{": errLines,
		"data: {}\n\n": errLines, "[1]\n": errLines, " {}\n": errLines, "}\n": errLines, "{\xff}\n": errNotUTF8} {
		if err := checkStream([]byte(bad), FramingNDJSON); err != want {
			t.Errorf("%q: %v, want %v", bad, err, want)
		}
		if lines.CheckError([]byte(bad), true) == nil {
			t.Errorf("%q passes as the end of a broken stream", bad)
		}
	}
	if lines.CheckError(nil, true) == nil || lines.CheckError([]byte("{}\n"), true) != nil {
		t.Error("no line ends a broken stream, or one does not")
	}
}

// TestEitherForm: a module with arrays writes groups of events or of lines, and no mixture.
func TestEitherForm(t *testing.T) {
	either := (&Routing{Framing: FramingSSE, Array: true}).written()
	for b, want := range map[string]error{"": nil, "data: {}\n\n": nil, "{}\n{}\n": nil, "{}\ndata: {}\n\n": errLines, "[{}]\n": errFrameBegin,
		"data: {}\n": errFrameEnd} {
		if err := checkStream([]byte(b), either); err != want {
			t.Errorf("%q: %v, want %v", b, err, want)
		}
	}
	if err := checkStream([]byte("{}\n"), (&Routing{Framing: FramingSSE}).written()); err == nil {
		t.Error("a module without arrays writes lines")
	}
}

// TestCheckAsked: a request that asks for a stream is none of a module that has not that stream.
func TestCheckAsked(t *testing.T) {
	const stream, array = `{"messages":[],"stream":true}`, `{"stream_array":true,"stream": true}`
	const whole = `{"stream":false,"stream_array":true,"Stream":true,"messages":[{"stream":true}]}`
	sse, lines := Routing{Framing: FramingSSE}, Routing{Framing: FramingNDJSON}
	arrays := Routing{Framing: FramingSSE, Array: true}
	for _, c := range []struct {
		m    Routing
		body string
		want error
	}{
		{Routing{Framing: FramingJSON}, stream, errNoStreams}, {Routing{Framing: FramingJSON}, array, errNoStreams},
		{Routing{Framing: FramingJSON}, whole, nil}, {Routing{Framing: FramingJSON}, `{"stream":"true"}`, nil},
		{Routing{Framing: FramingJSON}, "{", nil}, {Routing{Framing: FramingJSON}, "", nil},
		{sse, stream, nil}, {sse, array, errNoArray}, {sse, whole, nil}, {lines, array, errNoArray}, {arrays, array, nil},
		{Routing{}, array, nil},
	} {
		f := c.m.checkAsked(okFrame(abi.Translated{Body: []byte(c.body)}.Append(nil)))
		if (f == nil) != (c.want == nil) || f != nil && (f.Cause != CauseProtocol || !strings.Contains(f.Detail, c.want.Error())) {
			t.Errorf("%s, framing %q, array %t: %v, want %v", c.body, c.m.Framing, c.m.Array, f, c.want)
		}
	}
	declined := abi.BeginOutput(nil, abi.StatusDecline, 0)
	abi.EndOutput(declined, 0)
	if f := (&Routing{Framing: FramingJSON}).checkAsked(declined); f != nil {
		t.Errorf("a decline: %v", f)
	}
}

// TestCheckRequest: a request is an object, also behind the white space that a client's body may begin with.
func TestCheckRequest(t *testing.T) {
	for body, want := range map[string]error{
		`{}`: nil, " \t\r\n{\"a\": 1}\n": nil, "[]": errNoObject, " \n[{}]": errNoObject, "\v{}": errNoObject, "\ufeff{}": errNoObject,
		" {": errBodyNotJSON, " \n": errBodyNotJSON, " {\"\xff\": 1}": errNotUTF8,
	} {
		if err := checkRequest([]byte(body)); err != want {
			t.Errorf("%q: %v, want %v", body, err, want)
		}
		for _, op := range []abi.Op{abi.OpRequest, abi.OpRewrite} {
			payload := []byte(body)
			if op == abi.OpRequest {
				payload = abi.Translated{Body: payload}.Append(nil)
			}
			if f := checkWritten(op, okFrame(payload), false, ""); (f == nil) != (want == nil) {
				t.Errorf("op %v gives %q: %v, want %v", op, body, f, want)
			}
		}
	}
}

// TestMalformedSaysWhy: an output that passes a bound is told so, and not that it does not decode.
func TestMalformedSaysWhy(t *testing.T) {
	long := func(n int) []byte { return make([]byte, n) }
	torn := abi.Written{State: long(5000)}.Append(nil)
	for _, c := range []struct {
		op      abi.Op
		payload []byte
		want    string
	}{
		{abi.OpEvents, torn, "its state of 5000 bytes is over 4096"},
		{abi.OpFilter, abi.Filtered{State: long(257), Text: long(9)}.Append(nil), "its state of 257 bytes is over 256"},
		{abi.OpRequest, abi.Translated{Kept: long(1<<20 + 1)}.Append(nil), "its kept of 1048577 bytes is over 1048576"},
		{abi.OpDecide, []byte{7, 0, 0, 0, 0, 0, 0, 0}, "its verdict 7 is none"},
		{abi.OpDecide, abi.Decision{Verdict: abi.Deny, Msg: string(long(abi.RefusalBytesMax + 1))}.Append(nil), "bytes is over "},
		{abi.OpCharge, abi.Charge{Lines: make([]abi.Line, abi.LinesMax+1)}.Append(nil), "lines are over "},
		{abi.OpEvents, torn[:4999], "does not decode"},
		{abi.OpEvents, nil, "does not decode"},
		{abi.OpDecide, nil, "does not decode"},
		{abi.OpQuote, []byte("x"), "does not decode"},
	} {
		if f := CheckOutput(c.op, okFrame(c.payload)); f == nil || f.Cause != CauseProtocol || !strings.Contains(f.Detail, c.want) {
			t.Errorf("op %v, %d bytes: %v, want %s", c.op, len(c.payload), f, c.want)
		}
	}
}

// BenchmarkCheckFrames is what looking at a group of one chunk costs.
func BenchmarkCheckFrames(b *testing.B) {
	chunk := []byte(`data: {"id":"chatcmpl-01j9x2v7k3m8","object":"chat.completion.chunk","created":1700000000,"model":"core-1.1","choices":[{"index":0,"delta":{"content":" then"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	for b.Loop() {
		if err := checkFrames(chunk); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCheckGroup: it takes what the two checks that it stands for take, and no more.
func TestCheckGroup(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	whole := okGroup("state", "data: {\"a\":\"é\"}\n\nevent: x\ndata: y\n\n")
	taken := 0
	for range 20000 {
		frame := bytes.Clone(whole)
		for range r.IntN(3) {
			switch at := r.IntN(len(frame)); r.IntN(3) {
			case 0:
				frame[at] = byte(r.IntN(256))
			case 1:
				frame[at] = whole[r.IntN(len(whole))]
			default:
				frame = frame[:max(at, 1)]
			}
		}
		for _, framing := range []string{FramingSSE, FramingNDJSON} {
			fine := CheckOutput(abi.OpEvents, frame) == nil && frame[0] == byte(abi.StatusOK) &&
				checkWritten(abi.OpEvents, frame, false, framing) == nil
			got := checkGroup(frame, framing)
			kind := len(frame) > 4 && (frame[2] != 0 || frame[3] != 0) // means nothing with status ok: the long way takes it
			if got != fine && !(fine && kind) {
				t.Fatalf("%q, %s: it says %v, the checks say %v", frame, framing, got, fine)
			}
			if got {
				taken++
			}
		}
	}
	if taken < 1000 {
		t.Errorf("%d frames were taken", taken)
	}
}

// okFrame is an output frame of status ok.
func okFrame(payload []byte) []byte {
	f := append(abi.BeginOutput(nil, abi.StatusOK, 0), payload...)
	abi.EndOutput(f, 0)
	return f
}

// okGroup is the output frame of an event group.
func okGroup(state, written string) []byte {
	frame := abi.Written{State: []byte(state), Bytes: []byte(written)}.Append(abi.BeginOutput(nil, abi.StatusOK, 0))
	abi.EndOutput(frame, 0)
	return frame
}
