package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"corenode/engine/messages"
)

func TestSplice(t *testing.T) {
	s := Splices{Model: "there", ToolSkipped: messages.ServerTool, Signature: func(ours string) string {
		_, theirs, _ := strings.Cut(ours, "~")
		return theirs
	}, MaxTokens: 9, ChoiceAuto: true}
	for _, c := range []struct{ body, want string }{
		{`{"model":"there","stream":true,"max_tokens":1}`, `{"model":"there","stream":true,"max_tokens":1}`},
		{` { "model" : "here" , "max_tokens":1 } `, ` { "model" : "there" , "max_tokens":1 ,"stream":true} `},
		{`{"stream":false,"max_tokens":1}`, `{"stream":true,"max_tokens":1}`},
		{`{"stream":null}`, `{"stream":true,"max_tokens":9}`},
		{`{}`, `{"stream":true,"max_tokens":9}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"name":"a"},{"type":"bash_1","name":"b"},{"name":"c"}]}`,
			`{"stream":true,"max_tokens":1,"tools":[{"name":"a"},{"name":"c"}]}`},
		{`{"stream":true,"max_tokens":1,"tools":[ {"type":"bash_1"} , {"name":"c"} ]}`,
			`{"stream":true,"max_tokens":1,"tools":[ {"name":"c"} ]}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"type":"bash_1"},{"type":"web_search_1"}],"tool_choice":{"type":"any"}}`,
			`{"stream":true,"max_tokens":1}`},
		{` { "tool_choice" : {"type":"none"} , "stream":true,"tools":[{"type":"bash_1"}] , "max_tokens":1 } `, ` { "stream":true , "max_tokens":1 } `},
		{`{"tools":[{"type":"bash_1"}],"model":"here"}`, `{"model":"there","stream":true,"max_tokens":9}`},
		{`{"t\u006fols":[{"type":"bash_1"}],"tool_choice":{"type":"any"}}`, `{"stream":true,"max_tokens":9}`},
		{`{"stream":true,"max_tokens":1,"tools":[],"tool_choice":{"type":"auto"}}`,
			`{"stream":true,"max_tokens":1,"tools":[],"tool_choice":{"type":"auto"}}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"type":"bash_1"},{"name":"a"}],"tool_choice":{"type":"any"}}`,
			`{"stream":true,"max_tokens":1,"tools":[{"name":"a"}],"tool_choice":{"type":"auto"}}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"name":"a"},{"type":"bash_1"},{"type":"bash_2"}]}`,
			`{"stream":true,"max_tokens":1,"tools":[{"name":"a"}]}`},
		{`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"o~t\"\\x"},{"type":"text","text":"signature"}]}]}`,
			`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"o~t\"\\x"},{"type":"text","text":"signature"}]}]}`},
		{`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"ours"}]},{"role":"user","content":"x"}]}`,
			`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"ours"}]},{"role":"user","content":"x"}]}`},
	} {
		want := strings.Replace(c.want, `"o~t\"\\x"`, `"t\"\\x"`, 1)
		got, err := Splice([]byte(c.body), s)
		if err != nil || string(got) != want {
			t.Errorf("%s\ngives %s\nwant  %s\n%v", c.body, got, want, err)
		}
	}
	if _, err := Splice([]byte(`{"model":`), s); err == nil {
		t.Error("half a body is spliced")
	}
}

// FuzzSplice: whatever a body that the parser takes says beside what is spliced, it says
// the same afterwards.
func FuzzSplice(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","max_tokens":3,"stream":true,"x":[1,{"y":"\ud83d\ude00"}],"messages":[{"role":"user","content":[{"type":"text","text":"a\nb"}]}],"tools":[{"type":"bash_2","name":"b"},{"name":"t","input_schema":{"type":"object"}}]}`,
		`{"tools":[{"type":"bash_2","name":"b"}],"tool_choice":{"type":"none"},"messages":[{"role":"user","content":"x"}],"model":"m","max_tokens":1}`,
		`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"b~c"}]},{"role":"user","content":"y"}],"model":"m","max_tokens":1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := messages.ParseTranslated(body)
		if err != nil {
			return
		}
		out, err := Splice(body, Splices{Model: "there", ToolSkipped: messages.ServerTool, MaxTokens: 5, ChoiceAuto: q.ToolChoice.Mode == "auto",
			Signature: func(string) string { return "theirs" }})
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		p, err := messages.ParseTranslated(out)
		if err != nil {
			t.Fatalf("%s\nbecame %s: %v", body, out, err)
		}
		if p.Model != "there" || !p.Stream || p.MaxTokens == 0 {
			t.Fatalf("%s\nbecame %s", body, out)
		}
		p.Model, p.Stream, p.Body, q.Body = q.Model, q.Stream, nil, nil
		if q.MaxTokens == 0 {
			p.MaxTokens = 0
		}
		for i := range p.Tools { // places move with the tools that were left out
			p.Tools[i].At = q.Tools[i].At
		}
		for i := range p.Messages {
			for j := range p.Messages[i].Blocks {
				p.Messages[i].Blocks[j].Signature = q.Messages[i].Blocks[j].Signature
			}
		}
		if len(q.Tools) == 0 { // what is said of tools goes with the last that was skipped
			p.ToolChoice = q.ToolChoice
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("%s\nbecame %s:\n%+v\nwant\n%+v", body, out, p, q)
		}
	})
}

func TestFlavors(t *testing.T) {
	for _, name := range Flavors() {
		f, err := ParseFlavor(name)
		if err != nil || f.Traits().Health == "" || !slices.Contains([]string{"/v1/messages", "/v1/chat/completions"}, f.Path()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseFlavor("gpt"); err == nil || !strings.Contains(err.Error(), "llama-server") {
		t.Errorf("an unknown flavor: %v", err)
	}
	if !json.Valid(Chat(ChatCompletions, &messages.Request{Messages: []messages.Message{{Role: "user"}}}, ChatOptions{Model: "m"})) {
		t.Error("an empty request makes no JSON")
	}
}
