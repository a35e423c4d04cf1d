package generatecontent

import (
	"fmt"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// of translates a body that has some fields beside one content, which is the user's.
func of(fields string, query ...abi.Pair) (abi.Translated, *abi.Error) {
	body := `{"contents":[{"parts":[{"text":"x"}]}],` + fields + `}`
	return New().Request(abi.RequestInput{Body: []byte(body),
		Route: &abi.Route{Params: []abi.Pair{{Name: "model", Value: "m"}}, Query: query}})
}

// contents is contents of the model and of the user in turn, each with some parts.
func contents(parts ...string) string {
	all := make([]string, len(parts))
	for i, p := range parts {
		all[i] = fmt.Sprintf(`{"role":"%s","parts":[%s]}`, [...]string{"model", "user"}[i%2], p)
	}
	return `"contents":[` + strings.Join(all, ",") + `]`
}

// declared is tools with the functions f and g, each in one of its own.
const declared = `"tools":[{"functionDeclarations":[{"name":"f"}]},{"functionDeclarations":[{"name":"g"}]}]`

// signed is a signature of ours, of the thinking "hm".
var signed = `"thoughtSignature":"` + string(appendSignature(nil, []byte("hm"))) + `"`

// TestFields: what a native body has of fields.
func TestFields(t *testing.T) {
	const call, response = `{"functionCall":{"name":"f"}}`, `{"functionResponse":{"name":"f","response":{}}}`
	const json = `"generationConfig":{"responseMimeType":"application/json",`
	rows := [][2]string{
		{`"a":null`, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"model":"m"}`},
		{`"tools":[{"functionDeclarations":[{"name":"f"}]}],"tools":[{"functionDeclarations":[{"name":"g"}]}]`, `"tools":[{"name":"g",`},
		{`"model":"m","safetySettings":[{"a":1}],"generationConfig":{"topK":0,"enableEnhancedCivicAnswers":false,"mediaResolution":"LOW"}`, `"top_k":0`},
		{`"generationConfig":{"topP":0.5},"generationConfig":{"topK":5}`, `"model":"m","top_k":5}`},
		{json + `"responseSchema":{"type":"OBJECT"},"responseSchema":{"type":"ARRAY"}}`, `"schema":{"type":"array"}`},
		{json + `"responseJsonSchema":{"properties":{"b":{},"a":{}},"$defs":{"d":{},"c":{}},"propertyOrdering":["a","b","c"]}}`,
			`"schema":{"properties":{"a":{},"b":{}},"$defs":{"d":{},"c":{}},`},
		{`"tools":[{"functionDeclarations":[{"name":"f","behavior":"UNSPECIFIED","response":{"a":1}},{"name":"g","responseJsonSchema":{"a":[]}}]}]`,
			`"tools":[{"name":"f",`},
		{declared + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},"toolConfig":{"includeServerSideToolInvocations":false}`,
			`{"name":"g","input_schema":{"type":"object","properties":{}}}]}`},
		{declared + `,"toolConfig":{"functionCallingConfig":{"mode":"MODE_UNSPECIFIED"}}`, `{"name":"g","input_schema":{"type":"object","properties":{}}}]}`},
		{contents(`{"text":"a"}],"parts":[{"text":"b"}`), `"content":[{"type":"text","text":"b"}]}]`},
		{contents(`{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"b","name":"f"}}`,
			`{"functionResponse":{"id":"a","name":"f","response":{},"willContinue":false,"parts":[]}},`+response),
			`{"type":"tool_result","tool_use_id":"a","content":"{}"},{"type":"tool_result","tool_use_id":"b","content":"{}"}`},
		{contents(`{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"b","name":"f"}}`,
			`{"functionResponse":{"id":"b","name":"f","response":{}}},`+response),
			`{"type":"tool_result","tool_use_id":"b","content":"{}"},{"type":"tool_result","tool_use_id":"a","content":"{}"}`},
		{contents(call, `{"functionResponse":{"id":"z","name":"other","response":{}}}`), `"tool_use_id":"z"`},
		{`"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"},` + signed + `}]},{"role":"model","parts":[{"functionCall":{"name":"g"},` + signed + `}]}]`,
			`"content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"call_1","name":"f","input":{}},{"type":"tool_use","id":"call_2",`},
	}
	const schema = json + `"responseSchema":{`
	rows = append(rows, [][2]string{
		{schema + `"type":"OBJECT","properties":{"a":{"ref":"#/$defs/d"},"b":{"$ref":"#/$defs/d"}},"defs":{"d":{"type":"STRING"}},"additionalProperties":true}}`,
			`"schema":{"properties":{"a":{"$ref":"#/$defs/d"},"b":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"string"}},"additionalProperties":true,"type":"object"}`},
		{schema + `"additionalProperties":{"type":"INTEGER"}}}`, `"schema":{"additionalProperties":{"type":"integer"}}`},
		{schema + `"additionalProperties":false,"minProperties":"0","maxProperties":"2"}}`,
			`"schema":{"additionalProperties":false,"minProperties":0,"maxProperties":2}`},
		{schema + `"type":"STRING","minLength":1,"maxLength":2,"pattern":"a","title":"t","default":"a","example":"b"}}`,
			`"schema":{"minLength":1,"maxLength":2,"pattern":"a","title":"t","default":"a","example":"b","type":"string"}`},
		{schema + `"type":"NULL","nullable":true}}`, `"schema":{"type":"null"}`},
		{schema + `"anyOf":[{"type":"STRING","enum":["1"]}]}}`, `"schema":{"anyOf":[{"type":"string","enum":["1"]}]}`},
		{`"tools":[{"functionDeclarations":[{"name":"f"}]}]`, `"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}`},
		{declared + `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","allowedFunctionNames":["g"]}}`, `"tools":[{"name":"g",`},
	}...)
	for level, effort := range map[string]string{"MINIMAL": "low", "LOW": "low", "MEDIUM": "medium", "HIGH": "high", "XHIGH": "xhigh"} {
		for _, word := range []string{level, strings.ToLower(level)} {
			rows = append(rows, [2]string{`"generationConfig":{"thinkingConfig":{"thinkingLevel":"` + word + `"}}`, `"effort":"` + effort + `"`})
		}
	}
	for _, row := range rows {
		if out, err := of(row[0]); err != nil || !strings.Contains(string(out.Body), row[1]) {
			t.Errorf("%s: %v\n%s\nhas no\n%s", row[0], err, out.Body, row[1])
		}
	}
	if _, err := of(`"a":null`, abi.Pair{Name: "alt", Value: "json"}); err != nil {
		t.Error(err)
	}
	long := []byte(`{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":40000}}`)
	if _, err := New().Request(abi.RequestInput{Body: long, Route: &abi.Route{Index: routeStream}}); err != nil {
		t.Error(err)
	}
}

// TestRefused: what changes the answer and cannot be served, and what is in the wrong place, is refused at its path.
func TestRefused(t *testing.T) {
	const call, response = `{"functionCall":{"id":"a","name":"f"}}`, `"name":"f","response":{}`
	for _, row := range [][2]string{
		{contents(call, `{"text":"x","thought":true}`), "contents.1.parts"},
		{contents(call, `{"text":"x",`+signed+`}`), "contents.1.parts"},
		{`"contents":[{"parts":[{"text":"x"}],"name":"n"}]`, "contents.0.name"},
		{`"systemInstruction":{"parts":[{"text":"x","thought":true}]}`, "systemInstruction.parts"},
		{`"systemInstruction":{"parts":[{"functionResponse":{"id":"a",` + response + `}}]}`, "systemInstruction.parts"},
		{contents(call, `{"functionResponse":{`+response+`,"willContinue":true}}`), "contents.1.parts.0.functionResponse.willContinue"},
		{contents(call, `{"functionResponse":{`+response+`,"parts":[{"a":1}]}}`), "contents.1.parts.0.functionResponse.parts"},
		{contents(call, `{"functionResponse":{`+response+`,"scheduling":"SILENT"}}`), "contents.1.parts.0.functionResponse.scheduling"},
		{contents(call, `{"functionResponse":{"name":"f"}}`), "contents.1.parts.0.functionResponse.response"},
		{contents(`{"functionCall":{"args":{}}}`), "contents.0.parts.0.functionCall.name"},
		{`"tools":[{"functionDeclarations":[{"name":"f","strict":true}]}]`, "tools.0.functionDeclarations.0.strict"},
		{`"toolConfig":{"includeServerSideToolInvocations":true}`, "toolConfig.includeServerSideToolInvocations"},
		{`"toolConfig":{"retrievalConfig":{}}`, "toolConfig.retrievalConfig"},
		{`"toolConfig":{"functionCallingConfig":{"streamFunctionCallArguments":[]}}`, "toolConfig.functionCallingConfig.streamFunctionCallArguments"},
		{`"generationConfig":{"topK":-1}`, "generationConfig.topK"},
		{`"generationConfig":{"stopSequences":"a"}`, "generationConfig.stopSequences"},
		{`"generationConfig":{"responseModalities":["AUDIO","TEXT"]}`, "generationConfig.responseModalities"},
		{`"generationConfig":{"responseModalities":[1]}`, "generationConfig.responseModalities"},
		{`"generationConfig":{"mediaResolution":1}`, "generationConfig.mediaResolution"},
		{`"generationConfig":{"thinkingConfig":{"thoughts":"LOW"}}`, "generationConfig.thinkingConfig.thoughts"},
		{`"safetySettings":5`, "safetySettings"},
		{`"generationConfig":{"responseSchema":{"enum":"a"}}`, "generationConfig.responseSchema.enum"},
		{`"generationConfig":{"responseSchema":{"minItems":"x"}}`, "generationConfig.responseSchema.minItems"},
		{`"generationConfig":{"responseSchema":{"minItems":"1.5"}}`, "generationConfig.responseSchema.minItems"},
		{`"generationConfig":{"responseSchema":{"minItems":"-1"}}`, "generationConfig.responseSchema.minItems"},
		{`"generationConfig":{"responseSchema":{"minItems":"1 2"}}`, "generationConfig.responseSchema.minItems"},
	} {
		if _, err := of(row[0]); err == nil || err.Param != row[1] {
			t.Errorf("%s: %v, want one of %s", row[0], err, row[1])
		}
	}
}

// TestErrorPaths: what the engine says of a native body names the field that it was made of, what
// Request says the one that it names.
func TestErrorPaths(t *testing.T) {
	const schema = `"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{}}`
	const thought = `{"text":"hm","thought":true}`
	allowed := func(names string) string {
		return `"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}],` +
			`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":[` + names + `]}}`
	}
	for _, row := range [][3]string{
		{`"a":null`, "temperature", "generationConfig.temperature"},
		{`"a":null`, "top_k", "generationConfig.topK"},
		{`"a":null`, "seed", "generationConfig.seed"},
		{`"a":null`, "stop_sequences", "generationConfig.stopSequences"},
		{`"a":null`, "presence_penalty", "generationConfig.presencePenalty"},
		{`"a":null`, "frequency_penalty", "generationConfig.frequencyPenalty"},
		{`"a":null`, "output_config.effort", "generationConfig.thinkingConfig"},
		{`"a":null`, "messages.1.content.0", "contents[1].parts[0]"},
		{`"a":null`, "messages.1.content.0.thinking", "contents[1].parts[0].text"},
		{`"a":null`, "messages.1.content.0.name", "contents[1].parts[0].functionCall.name"},
		{`"a":null`, "messages.1.content.0.input", "contents[1].parts[0].functionCall.args"},
		{`"a":null`, "tools.0.input_schema", "tools[0].functionDeclarations[0].parameters"},
		{schema, "response_format.json_schema.schema.a", "generationConfig.responseJsonSchema.a"},
		{schema + `,"generationConfig":{}`, "response_format.json_schema.schema.a", "generationConfig.responseSchema.a"},
		{declared, "tools.1.name", "tools"},
		{allowed(`"f"`), "tools.0.name", "tools"},
		{allowed(`"f","g"`), "tools.1.name", "tools[0].functionDeclarations[1].name"},
		{contents(`{"text":""},{"text":"a"}`), "messages.0.content.0.text", "contents[0]"},
		{contents(`{"text":"a"},{"text":""},` + thought), "messages.0.content.1.text", "contents[0]"},
		{contents(`{"text":"a"},{"text":"b"},` + thought), "messages.0.content.1.text", "contents[0]"},
		{contents(thought + `,{"functionCall":{"name":"f"},` + signed + `}`), "messages.0.content.1.name", "contents[0].parts[1].functionCall.name"},
		{"", "5", "5"},
		{"", "max_tokens..3", "max_tokens.[3]"},
	} {
		var out abi.Translated
		if row[0] != "" {
			out, _ = of(row[0])
		}
		got := string(New().Error(nil, abi.ErrorInput{Kept: out.Kept, Status: 400, Kind: abi.InvalidRequest,
			Detail: abi.Detail{Reason: abi.ReasonField}, Param: row[1], Msg: "x"}))
		if want := `"fieldViolations":[{"field":"` + row[2] + `","description":"x"}`; !strings.Contains(got, want) {
			t.Errorf("%s with %s: %s, want %s", row[1], row[0], got, want)
		}
	}
}

// TestErrorCodes: a stream has no status, so its error has the code of its kind; else the code is the status.
func TestErrorCodes(t *testing.T) {
	codes := map[abi.Kind]int{abi.Internal: 500, abi.InvalidRequest: 400, abi.ModelNotFound: 404, abi.PathNotFound: 404,
		abi.Unauthenticated: 401, abi.InsufficientBalance: 403, abi.RateLimited: 429, abi.Overloaded: 503, abi.TooLarge: 413,
		abi.MethodNotAllowed: 405, abi.UnsupportedEncoding: 415, abi.ReadTimeout: 408, abi.Timeout: 504, abi.Canceled: 499, 200: 500}
	if len(codes) != len(abi.Kinds())+1 {
		t.Fatalf("%d kinds", len(codes))
	}
	for kind, code := range codes {
		in := abi.ErrorInput{Status: 529, Kind: kind, Param: "model", Msg: "x"}
		whole := string(New().Error(nil, in))
		in.Facts.Stream = true
		streamed := string(New().Error(nil, in))
		if !strings.HasPrefix(whole, `{"error":{"code":529,`) || !strings.HasPrefix(streamed, fmt.Sprintf(`{"error":{"code":%d,`, code)) ||
			strings.Contains(whole, "details") != (kind == abi.InvalidRequest) {
			t.Errorf("%v: %s, in a stream %s", kind, whole, streamed)
		}
	}
}

// TestPages: a page has at most 1,000 models, and what is no number of one is refused.
func TestPages(t *testing.T) {
	in := abi.ModelsInput{Route: abi.Route{Index: routeList}, Models: make([]abi.Model, 1001)}
	for _, row := range []struct {
		size, token, next string // next is empty without a further page
		ok                bool
	}{
		{"", "", "50", true}, {"0", "", "50", true}, {"2000", "", "1000", true}, {"9999999999", "1", "", true}, {"1", "1000", "", true},
		{"-1", "", "", false}, {"x", "", "", false}, {"", "-1", "", false}, {"", "x", "", false}, {"", "1002", "", false},
	} {
		in.Route.Query = []abi.Pair{{Name: "pageSize", Value: row.size}, {Name: "pageToken", Value: row.token}}
		body, err := New().Models(nil, in)
		_, rest, more := strings.Cut(string(body), `"nextPageToken":"`)
		if row.ok != (err == nil) || more != (row.next != "") || more && rest != row.next+`"}` {
			t.Errorf("size %q, token %q: %v, next %q", row.size, row.token, err, rest)
		}
	}
}
