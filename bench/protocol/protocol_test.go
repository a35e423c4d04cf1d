package protocol

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// stream is a reply in events, and what a reader must make of it.
type stream struct {
	name     string
	protocol Protocol
	in       string
	outputs  int
	text     string // JSON-escaped
	usage    Usage
	fails    string // part of the error, "" for none
	told     bool   // the error is the server's
}

const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":64,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n"

var streams = []stream{
	{"messages", Messages, start +
		"event: ping\ndata: {\"type\":\"ping\"}\n\n: waiting\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"abc\"}}\n\n" +
		"event: content_block_delta\ndata: {\"delta\":{\"text\":\"a \\\"b\\\"\",\"type\":\"text_delta\"},\"index\":1,\"type\":\"content_block_delta\"}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"\"}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", 4, `a \"b\"`, Usage{73, 64, 9, true, true}, "", false},
	{"messages without names, with carriage returns", Messages,
		"data:{\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\r\n\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n", 1, "x", Usage{}, "", false},
	{"data in two lines", Messages, "data: {\"type\":\ndata: \"message_stop\"}\n\n", 0, "", Usage{}, "", false},
	{"messages cut", Messages, start + "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n", 1, "x", Usage{73, 64, 1, true, true}, "without message_stop", false},
	{"error event", Messages, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n", 0, "", Usage{}, "busy", true},
	{"error event of another make", Messages, "event: error\ndata: {\"code\":500,\"message\":\"broken\",\"type\":\"server_error\"}\n\n", 0, "", Usage{}, "broken", true},
	{"error after the end counts", Messages, "data: {\"type\":\"message_stop\"}\n\nevent: error\ndata: {}\n\n", 0, "", Usage{}, "{}", true},
	{"no JSON", Messages, "data: {\"type\":\n\n", 0, "", Usage{}, "not the JSON", false},
	{"no type", Messages, "data: {}\n\n", 0, "", Usage{}, "not the JSON", false},
	{"chat", Chat,
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"Hm\"}}]}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\u00e4\"}}]}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":3,\"total_tokens\":53,\"prompt_tokens_details\":{\"cached_tokens\":32}}}\n\n" +
			"data: [DONE]\n\n", 3, `a\u00e4`, Usage{50, 32, 3, true, true}, "", false},
	{"chat with timings", Chat, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":3},\"timings\":{\"cache_n\":40,\"prompt_ms\":1.5}}\n\ndata: [DONE]\n\n", 0, "", Usage{50, 40, 3, true, true}, "", false},
	{"chat cut", Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 1, "x", Usage{}, "without [DONE]", false},
	{"chat error", Chat, "data: {\"error\":{\"message\":\"busy\"}}\n\ndata: [DONE]\n\n", 0, "", Usage{}, "busy", true},
	{"chat error of no error", Chat, "data: {\"error\": null,\"choices\":[]}\n\ndata: [DONE]\n\n", 0, "", Usage{}, "", false},
	{"chat error line", Chat, "error: {\"message\":\"busy\"}\n\n", 0, "", Usage{}, "busy", true},
	{"chat no JSON", Chat, "data: oops\n\n", 0, "", Usage{}, "not the JSON", false},
}

// read feeds a stream in pieces of a size and returns the outputs that Feed counted.
func (c stream) read(r *Reader, size int) (outputs int, err error) {
	r.Reset(c.protocol, true)
	for in := []byte(c.in); len(in) > 0; {
		n, err := r.Feed(in[:min(size, len(in))])
		if outputs += n; err != nil {
			return outputs, err
		}
		in = in[min(size, len(in)):]
	}
	return outputs, r.End()
}

func TestStreamsInPiecesOfAnySize(t *testing.T) {
	var r Reader // of all, so that nothing of one reply is left in the next
	for _, c := range streams {
		for _, size := range []int{1, 2, 3, 7, 64, 1 << 20} {
			outputs, err := c.read(&r, size)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s in %d: error %v, want one with %q", c.name, size, err, c.fails)
			}
			if _, told := errors.AsType[*ServerError](err); told != c.told {
				t.Errorf("%s in %d: error %v is the server's: want %v", c.name, size, err, c.told)
			}
			if outputs != c.outputs || string(r.Text()) != c.text || r.Usage() != c.usage {
				t.Errorf("%s in %d: %d outputs, text %q, usage %+v; want %d, %q, %+v", c.name, size, outputs, r.Text(), r.Usage(), c.outputs, c.text, c.usage)
			}
		}
	}
}

func TestWholeReplies(t *testing.T) {
	cases := []struct {
		name     string
		protocol Protocol
		in, text string
		usage    Usage
		fails    string
	}{
		{"messages", Messages, `{"id":"m","type":"message","content":[{"type":"thinking","thinking":"h"},{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"output_tokens":2}}`, "hi", Usage{3, 0, 2, true, false}, ""},
		{"messages error", Messages, `{"type":"error","error":{"message":"busy"}}`, "", Usage{}, "busy"},
		{"messages other", Messages, `{"object":"list"}`, "", Usage{}, "not the JSON"},
		{"chat", Chat, `{"choices":[{"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "hi", Usage{3, 0, 2, true, false}, ""},
		{"chat error", Chat, `{"error":{"message":"busy"}}`, "", Usage{}, "busy"},
		{"chat cut", Chat, `{"choices":[{"message":{"content":"hi"`, "", Usage{}, "not the JSON"},
		{"empty", Chat, ``, "", Usage{}, "not the JSON"},
	}
	var r Reader
	for _, c := range cases {
		r.Reset(c.protocol, true)
		err := r.Whole([]byte(c.in))
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.fails)
		}
		if string(r.Text()) != c.text || r.Usage() != c.usage {
			t.Errorf("%s: text %q, usage %+v", c.name, r.Text(), r.Usage())
		}
	}
}

func TestTextIsKeptOnlyWhenAsked(t *testing.T) {
	var r Reader
	r.Reset(Chat, false)
	n, err := r.Feed([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"))
	if n != 1 || err != nil || len(r.Text()) != 0 {
		t.Errorf("%d outputs, text %q, error %v", n, r.Text(), err)
	}
}

// The oracle is the JSON parser of Go's library.
func TestBodies(t *testing.T) {
	turns := []Turn{{"user", []byte(`say \"hi\"`)}, {"assistant", []byte("hi")}, {"user", []byte("again")}}
	for _, p := range []Protocol{Messages, Chat} {
		e, err := Template{Protocol: p, Model: `a"b`, Stream: true, Temperature: 0.5, Extra: []byte(`{"ignore_eos":true,"temperature":1}`)}.Encoder()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Model       string
			Stream      bool
			MaxTokens   int `json:"max_tokens"`
			IgnoreEOS   bool
			Ignore      bool `json:"ignore_eos"`
			Temperature float64
			System      string
			Options     *struct {
				Usage bool `json:"include_usage"`
			} `json:"stream_options"`
			Messages []struct{ Role, Content string }
		}
		body := e.Append([]byte("before"), 12, []byte("be brief"), turns)
		if err := json.Unmarshal(body[len("before"):], &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got.Model != `a"b` || !got.Stream || got.MaxTokens != 12 || !got.Ignore || got.Temperature != 1 ||
			(got.Options != nil) != (p == Chat) {
			t.Errorf("%s: %+v", p, got)
		}
		messages := got.Messages
		if p == Chat {
			if messages[0].Role != "system" || messages[0].Content != "be brief" || !got.Options.Usage {
				t.Errorf("%s: %+v", p, got)
			}
			messages = messages[1:]
		} else if got.System != "be brief" {
			t.Errorf("%s: system %q", p, got.System)
		}
		if len(messages) != 3 || messages[0].Content != `say "hi"` || messages[1].Role != "assistant" || messages[2].Content != "again" {
			t.Errorf("%s: %+v", p, messages)
		}
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	for _, extra := range []string{`[]`, `{`, `{"model":"x"}`, `{"messages":[]}`, `{"max_tokens":1}`} {
		if _, err := (Template{Protocol: Chat, Extra: []byte(extra)}).Encoder(); err == nil {
			t.Errorf("%s was taken", extra)
		}
	}
	if _, err := Parse("responses"); err == nil {
		t.Error("an unknown protocol was taken")
	}
}

// FuzzReader: a reply is the same in one piece and in many.
func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,null,"x\"y",{}]}`, `[]`, `"\\"`, `{"a" : 1 , "b":[ ]}`, `{"a":`, `}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var r Reader
		for _, p := range []Protocol{Messages, Chat} {
			r.Reset(p, true)
			_ = r.Whole(in)
			r.Reset(p, true)
			whole, err1 := r.Feed(in)
			r.Reset(p, true)
			parts, err2 := 0, error(nil)
			for i := 0; i < len(in) && err2 == nil; i++ {
				var n int
				n, err2 = r.Feed(in[i : i+1])
				parts += n
			}
			if whole != parts || (err1 == nil) != (err2 == nil) {
				t.Errorf("%q at once: %d, %v; byte by byte: %d, %v", in, whole, err1, parts, err2)
			}
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	event := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" author\"}}\n\n")
	var r Reader
	r.Reset(Messages, false)
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := r.Feed(event); n != 1 || err != nil {
			b.Fatal(n, err)
		}
	}
}
