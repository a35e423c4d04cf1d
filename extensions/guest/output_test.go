package guest

import "testing"

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
		if CheckError([]byte(bad), true, FramingNDJSON) == nil {
			t.Errorf("%q passes as the end of a broken stream", bad)
		}
	}
	if CheckError(nil, true, FramingNDJSON) == nil || CheckError([]byte("{}\n"), true, FramingNDJSON) != nil {
		t.Error("no line ends a broken stream, or one does not")
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
