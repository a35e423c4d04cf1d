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

// BenchmarkCheckFrames is what looking at a group of one chunk costs.
func BenchmarkCheckFrames(b *testing.B) {
	chunk := []byte(`data: {"id":"chatcmpl-01j9x2v7k3m8","object":"chat.completion.chunk","created":1700000000,"model":"core-1.1","choices":[{"index":0,"delta":{"content":" then"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	for b.Loop() {
		if err := checkFrames(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
