package vector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// one parses a single vector.
func one(t *testing.T, text string) *Vector {
	t.Helper()
	all, err := Parse([]byte("[" + text + "]"))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return &all[0]
}

const greeting = `{"name": "a", "op": "stream", "kept": "me", "events": [{"start": {}}, {"text": ["1", "2"]}, {"end": {"stop": "end_turn"}}]}`

// TestGroupingShows has a translator that is right for the whole stream in one
// group, and wrong in others.
func TestGroupingShows(t *testing.T) {
	cases := map[string]struct {
		module sdk.Handler
		says   string
	}{
		"it numbers groups":      {sdk.TranslatorHandler(parrot{groups: true}), "every event alone"},
		"it writes half events":  {sdk.TranslatorHandler(parrot{torn: true}), "ends within an event"},
		"it forgets its state":   {forgetful, "every event alone"},
		"it fails after a start": {failsLate, "output frame"},
	}
	for name, c := range cases {
		v := one(t, greeting)
		changed, err := v.Update(native(c.module), false)
		if changed || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: updated %v, %v; want %q", name, changed, err, c.says)
		}
		good := one(t, greeting)
		if changed, err := good.Update(native(sdk.TranslatorHandler(parrot{})), false); err != nil || !changed {
			t.Fatal(changed, err)
		}
		if err := good.Run(native(c.module), false); err == nil {
			t.Errorf("%s: it passes", name)
		}
	}
}

// TestLinesWithReturns: events may end their lines in either way.
func TestLinesWithReturns(t *testing.T) {
	module := native(sdk.TranslatorHandler(parrot{returns: true}))
	v := one(t, greeting)
	if changed, err := v.Update(module, false); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if err := v.Run(module, false); err != nil {
		t.Error(err)
	}
	torn := native(sdk.TranslatorHandler(parrot{returns: true, torn: true}))
	if err := v.Run(torn, false); err == nil || !strings.Contains(err.Error(), "ends within an event") {
		t.Errorf("half an event: %v", err)
	}
}

// forgetful loses its state when a group is one delta.
func forgetful(op abi.Op, in, dst []byte) []byte {
	e, err := abi.ParseEventsInput(in)
	if err == nil && op == abi.OpEvents && len(e.Events) < 16 {
		e.State = nil
		in = e.Append(nil)
	}
	return sdk.TranslatorHandler(parrot{})(op, in, dst)
}

// failsLate answers nonsense to every group that does not begin the stream.
func failsLate(op abi.Op, in, dst []byte) []byte {
	e, _ := abi.ParseEventsInput(in)
	if op == abi.OpEvents && len(e.State) > 0 {
		return []byte("no more")
	}
	return sdk.TranslatorHandler(parrot{})(op, in, dst)
}

// TestHistory gives a translator that asks for it the answer so far, however
// the stream is cut.
func TestHistory(t *testing.T) {
	module := native(sdk.TranslatorHandler(parrot{history: true}))
	v := one(t, greeting)
	if _, err := v.Update(module, true); err != nil {
		t.Fatal(err)
	}
	if got := string(*v.spec.Want.Stream); !strings.Contains(got, `stop 0 of "12"`) {
		t.Errorf("the block's end does not show the block:\n%s", got)
	}
	if err := v.Run(module, false); err == nil {
		t.Error("it passes without the history")
	}
}

// TestDifference shows what a person sees.
func TestDifference(t *testing.T) {
	v := one(t, `{"name": "a", "op": "request", "body": {"model": "m", "say": "Hi"}, "want": {"body": {"model":"m","messages":[{"role":"user","content":"Ho"}]}}}`)
	err := v.Run(native(sdk.TranslatorHandler(parrot{})), false)
	const want = `body differs at byte 52, line 1 (57 bytes, want 57)
  want "del\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Ho\"}]}"
  got  "del\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"
                                                                    ^`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestFaultsAreTold(t *testing.T) {
	broken := errors.New("trap: unreachable")
	frame := func(b ...byte) Call { return func(abi.Op, []byte) ([]byte, error) { return b, nil } }
	cases := []struct {
		call Call
		says string
	}{
		{func(abi.Op, []byte) ([]byte, error) { return nil, broken }, "trap"},
		{frame(), "output frame"},
		{frame(0, 0, 0, 0, 1, 0, 0, 0), "output frame"},
		{frame(0, 0, 0, 0, 0, 0, 0, 0), "malformed"},              // an empty quote
		{frame(1, 0, 1, 0, 0, 0, 0, 0), "only request"},           // a refusal of billing
		{frame(2, 0, 0, 0, 1, 0, 0, 0, 1), "declined with"},       // a decline with bytes
		{frame(2, 0, 0, 0, 0, 0, 0, 0), "got decline"},            // a decline
		{native(sdk.BillingHandler(billing{})), "quote.upper is"}, // another amount
	}
	v := one(t, `{"name": "a", "op": "quote", "quote": {"input": 1}, "want": {"quote": {"upper": 1, "minimum": 1}}}`)
	for _, c := range cases {
		if err := v.Run(c.call, false); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	refused := one(t, `{"name": "a", "op": "response", "request": {}, "events": [{"start": {}}], "want": {"body": {}}}`)
	if err := refused.Run(native(sdk.TranslatorHandler(parrot{})), false); err == nil || !strings.Contains(err.Error(), "say is missing") {
		t.Errorf("a request that is refused: %v", err)
	}
	if err := one(t, greeting).Run(native(sdk.TranslatorHandler(parrot{})), false); !errors.Is(err, ErrNoWant) {
		t.Errorf("without a want: %v", err)
	}
}

// clerk is a translator with routes: listings and counts beside what a parrot does.
type clerk struct{ parrot }

func (clerk) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	kept := in.Route.Param("model") + in.Route.Parameter("alt") + in.Route.Header("x-client")
	return abi.Translated{Body: in.Body, Kept: []byte(kept)}, nil
}

func (clerk) Models(dst []byte, in abi.ModelsInput) ([]byte, *abi.Error) {
	if id := in.Route.Param("model"); id != "" && id != in.Models[0].ID {
		return dst, &abi.Error{Kind: abi.ModelNotFound, Msg: "no " + id}
	}
	return fmt.Appendf(dst, `{"first":%q,"of":%d}`, in.Models[0].ID, in.Models[0].Context), nil
}

func (clerk) Count(dst []byte, in abi.CountInput) []byte {
	return fmt.Appendf(dst, `{"tokens":%d,"of":%q}`, in.Tokens, in.Kept)
}

func (clerk) Events(dst, state []byte, in abi.EventsInput) (written, next []byte) {
	all := in.Events
	for f, more := all.Next(); more; f, more = all.Next() {
		dst = fmt.Appendf(dst, "{\"kind\":%d,\"took\":%d}\n", f.Kind, f.Elapsed().Total)
	}
	return dst, state
}

// TestRoutedVectors: how a request came, listings, counts, lines, and how long an answer took.
func TestRoutedVectors(t *testing.T) {
	const route = `"route": {"index": 2, "params": {"model": "m"}, "query": {"alt": "-a"}, "headers": {"x-client": "-c"}}`
	const models = `"models": [{"id": "core", "name": "Core", "created": 1, "context": 9, "output": 3}]`
	for _, text := range []string{
		`{"name": "a", "op": "request", ` + route + `, "body": {}, "want": {"body": {}, "kept": "m-a-c"}}`,
		`{"name": "a", "op": "count", ` + route + `, "request": {}, "tokens": 7, "want": {"body": {"tokens":7,"of":"m-a-c"}}}`,
		`{"name": "a", "op": "models", "route": {"index": 1}, ` + models + `, "want": {"body": {"first":"core","of":9}}}`,
		`{"name": "a", "op": "models", ` + route + `, ` + models + `, "want": {"refusal": {"msg": "no m"}}}`,
		`{"name": "a", "op": "stream", ` + route + `, "request": {}, "events": [{"start": {}}, {"elapsed": {"total": 5}}, {"end": {"stop": "end_turn"}}],
			"want": {"stream": ["{\"kind\":0,\"took\":0}", "{\"kind\":6,\"took\":5}", "{\"kind\":4,\"took\":0}"]}}`,
	} {
		if err := one(t, text).Run(native(sdk.RouterHandler(clerk{})), false); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRouteAsWritten: a module gets what a route is told in the order in which a vector has it,
// and all that was given more than once.
func TestRouteAsWritten(t *testing.T) {
	v := one(t, `{"name": "a", "op": "request", "body": {}, "want": {"decline": true}, "route": {"params": {"project": "p", "model": "m"},
		"query": {"b": ["1", "2"], "\u0061": "3", "none": []}, "headers": {"x-b": "4", "x-a": ["5"]}}}`)
	var got abi.Route
	_ = v.Run(func(_ abi.Op, in []byte) ([]byte, error) { // what comes back is not asked here
		asked, err := abi.ParseRequestInput(in)
		if err != nil {
			t.Fatal(err)
		}
		got = *asked.Route
		return nil, io.EOF
	}, false)
	want := abi.Route{Params: []abi.Pair{{Name: "project", Value: "p"}, {Name: "model", Value: "m"}},
		Query:   []abi.Pair{{Name: "b", Value: "1"}, {Name: "b", Value: "2"}, {Name: "a", Value: "3"}},
		Headers: []abi.Pair{{Name: "x-b", Value: "4"}, {Name: "x-a", Value: "5"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it gets %+v, want %+v", got, want)
	}
}

func TestMistakes(t *testing.T) {
	cases := map[string]string{
		`[{"name": "a", "op": "models", "models": []}]`:                               `needs "route"`,
		`[{"name": "a", "op": "count", "tokens": 1, "events": []}]`:                   `no use for "events"`,
		`[{"name": "a", "op": "models", "route": {"index": -1}}]`:                     "below 0",
		`[{"name": "a", "op": "models", "route": {"params": {"model": 7}}}]`:          "route.params is a JSON number",
		`[{"name": "a", "op": "models", "route": {"query": []}}]`:                     "route.query is a JSON array, want an object",
		`[{"name": "a", "op": "stream", "events": [{"elapsed": {}}, {"start": {}}]}]`: "before an end",
		`{}`:   "no JSON array",
		`[{}]`: "no name",
		`[{"name":"a","op":"error","error":{"reason":2}}]`: "error.reason is a JSON number, want a string",
		`[{"name": "a"}]`:                                         "op",
		`[{"name": "a", "op":1}]`:                                 "op",
		`[{"name": "a", "op": "quote"}]`:                          `needs "quote"`,
		`[{"name": "a", "op": "quote", "quote": {}, "body": {}}]`: `no use for "body"`,
		`[{"name": "a", "op": "quote", "quote": {"in": 1}}]`:      "in",
		`[{"name": "a", "op": "quote", "quote": {}}, {"name": "a", "op": "quote", "quote": {}}]`:  "taken",
		`[{"name": "a", "op": "request", "body": 7}]`:                                             "neither an object",
		`[{"name": "a", "op": "request", "body": "base64:?"}]`:                                    "illegal base64",
		`[{"name": "a", "op": "request", "body": {}, "want": {}}]`:                                "0 results",
		`[{"name": "a", "op": "request", "body": {}, "want": {"body": {}, "decline": true}}]`:     "2 results",
		`[{"name": "a", "op": "request", "body": {}, "want": {"stream": []}}]`:                    `gives no "stream"`,
		`[{"name": "a", "op": "request", "body": {}, "config": []}]`:                              "config",
		`[{"name": "a", "op": "quote", "quote": {}, "want": {"refusal": {}}}]`:                    `gives no "refusal"`,
		`[{"name": "a", "op": "error", "error": {"kind": "internal"}}]`:                           "error.status",
		`[{"name": "a", "op": "error", "error": {"kind": "bad", "status": 400}}]`:                 "no kind",
		`[{"name": "a", "op": "error", "error": {"status": 400, "reason": "x"}}]`:                 "no reason",
		`[{"name": "a", "op": "stream", "events": [{}]}]`:                                         "events.0",
		`[{"name": "a", "op": "stream", "events": [{"start": {}, "text": ""}]}]`:                  "exactly one",
		`[{"name": "a", "op": "stream", "events": [{"end": {"stop": "tired"}}]}]`:                 "tired",
		`[{"name": "a", "op": "stream", "events": [{"kind": "delta", "text": "a"}]}]`:             "needs block",
		`[{"name": "a", "op": "stream", "events": [{"text": "a", "index": 1}]}]`:                  "belong to",
		`[{"name": "a", "op": "stream", "events": [], "kept": "", "request": {}}]`:                "exclude",
		`[{"name": "a", "op": "decide", "admission": {}, "want": {"decision": {"verdict":"x"}}}]`: "verdict",
	}
	for text, says := range cases {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestContent(t *testing.T) {
	cases := map[string]string{
		`{"b": 1.0, "a": [ 1e2, "\u0041" ]}`: `{"b":1.0,"a":[1e2,"\u0041"]}`,
		`"{ }"`:                              `{ }`,
		`"<&>"`:                              `<&>`,
		`"base64:/w=="`:                      "\xff",
		`""`:                                 "",
	}
	for text, want := range cases {
		var c content
		if err := c.UnmarshalJSON([]byte(text)); err != nil || string(c) != want {
			t.Errorf("%s is %q, %v; want %q", text, c, err, want)
		}
	}
	for _, text := range []string{"", "a", "{}", "{ }", "7", "\xff", "{\"\xff\":1}", "base64:a", "<a>", "a\nb", "\n\n"} {
		var c content
		var l lines
		written, _ := content(text).MarshalJSON()
		if err := c.UnmarshalJSON(written); err != nil || string(c) != text {
			t.Errorf("content %q is written %s, read %q, %v", text, written, c, err)
		}
		written, _ = lines(text).MarshalJSON()
		if err := l.UnmarshalJSON(written); err != nil || string(l) != text {
			t.Errorf("lines %q are written %s, read %q, %v", text, written, l, err)
		}
	}
}

// TestPack is in a folder whose name would be a pattern of others.
func TestPack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vectors [a]")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(dir); err == nil {
		t.Error("an empty folder was packed")
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("b.json", `[{"name": "b", "op": "quote", "quote": {"input": 2}, "want": {"decline": true}}]`)
	put("a.json", `[{"op": "request", "name": "a", "body": {"\u0061": [1,  2.50]}}]`)
	section, err := Pack(dir)
	const want = `[{"op":"request","name":"a","body":{"\u0061":[1,2.50]}},{"name":"b","op":"quote","quote":{"input":2},"want":{"decline":true}}]`
	if err != nil || string(section) != want {
		t.Errorf("packed %s, %v", section, err)
	}
	put("c.json", `[{"name": "a", "op": "quote", "quote": {}}]`)
	if _, err := Pack(dir); err == nil || !strings.Contains(err.Error(), "a.json already") {
		t.Errorf("a name in two files: %v", err)
	}
}

// FuzzParse holds what Format writes of any vectors to be the same vectors,
// and running them to be harmless.
func FuzzParse(f *testing.F) {
	for path := range modules {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, section []byte) {
		all, err := Parse(section)
		if err != nil {
			return
		}
		written := Format(all)
		again, err := Parse(written)
		if err != nil {
			t.Fatalf("%v of\n%s", err, written)
		}
		if twice := Format(again); !bytes.Equal(written, twice) {
			t.Fatalf("Format is not stable:\n%s\n%s", written, twice)
		}
		for i := range all {
			if len(all[i].stream) > 32 {
				continue
			}
			for _, module := range modules {
				_ = all[i].Run(native(module), true)
			}
		}
	})
}

// lastBlind is a filter that masks no piece that ends its block.
type lastBlind struct{}

func (lastBlind) Filter(in abi.FilterInput) (abi.Filtered, error) {
	if in.Last {
		return abi.Filtered{Text: []byte(in.Text)}, nil
	}
	return abi.Filtered{Text: bytes.ReplaceAll([]byte(in.Text), []byte("a"), []byte("*"))}, nil
}

// TestServedFilter: a filter that served is asked what it was asked then, a new one also for a last piece with text.
func TestServedFilter(t *testing.T) {
	all, err := Parse([]byte(`[{"name": "v", "op": "filter", "filter": {"block": "Text", "text": "ba"}, "want": {"text": "b*"}},
		{"name": "w", "op": "filter", "filter": {"text": "ba"}, "want": {"text": "b*"}}]`))
	if err != nil {
		t.Fatal(err)
	}
	for i, says := range []string{`filter.block is "Text"`, `with last: text is "ba"`} {
		call := native(sdk.FilterHandler(lastBlind{}))
		if err := all[i].RunServed(call, false); err != nil {
			t.Error(err)
		}
		if err := all[i].Run(call, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestWriteLeavesWhatWasSaved: a file that was saved since it was read stays, and nothing is left beside it.
func TestWriteLeavesWhatWasSaved(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "v.json"), filepath.Join(dir, "link.json")
	const first, saved = `[{"name": "v", "op": "filter", "filter": {"text": "a"}}]`, `[{"name": "w", "op": "filter", "filter": {"text": "b"}}]`
	if err := os.WriteFile(path, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(saved)
	if err := files[0].Write(); err == nil || !strings.Contains(err.Error(), "v.json was saved meanwhile") {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != saved {
		t.Errorf("%s, %v", text, err)
	}
	write(first)
	if err := os.Symlink("v.json", link); err != nil {
		t.Fatal(err)
	}
	files[0].Path = link
	if err := files[0].Write(); err != nil {
		t.Error(err)
	}
	info, err := os.Lstat(path)
	if text, _ := os.ReadFile(path); err != nil || !bytes.Equal(text, Format(files[0].Vectors)) || info.Mode() != 0o600 {
		t.Errorf("%s, %v, %v", text, info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestKindOfRefusal: a want may say with which kind a module refuses, and an update says it where it is not the usual one.
func TestKindOfRefusal(t *testing.T) {
	refusing := func(kind abi.Kind) Call {
		return func(abi.Op, []byte) ([]byte, error) {
			out := abi.Refusal{Param: "model", Msg: "no"}.Append(abi.BeginOutput(nil, abi.StatusError, kind))
			abi.EndOutput(out, 0)
			return out, nil
		}
	}
	const asked = `{"name": "v", "op": "models", "route": {"index": 0}`
	wanting := func(more string) *Vector { return one(t, asked+`, "want": {"refusal": {"param": "model"`+more+`}}}`) }
	for _, kind := range []abi.Kind{abi.InvalidRequest, abi.ModelNotFound} {
		if err := wanting("").Run(refusing(kind), false); err != nil {
			t.Errorf("a want without a kind, %v: %v", kind, err)
		}
		if err := wanting(`, "kind": "`+kind.String()+`"`).Run(refusing(kind), false); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
		v := one(t, asked+"}")
		_, err := v.Update(refusing(kind), false)
		if text := string(Format([]Vector{*v})); err != nil || strings.Contains(text, `"kind"`) != (kind == abi.ModelNotFound) {
			t.Errorf("%v: %s, %v", kind, text, err)
		}
		if err := v.Run(refusing(kind), false); err != nil {
			t.Error(err)
		}
	}
	err := wanting(`, "kind": "model_not_found"`).Run(refusing(abi.InvalidRequest), false)
	if err == nil || !strings.Contains(err.Error(), `refusal.kind is "invalid_request", want "model_not_found"`) {
		t.Error(err)
	}
	older, _ := refusing(abi.ModelNotFound)(0, nil)
	newer, _ := refusing(abi.InvalidRequest)(0, nil)
	if text := Difference(abi.OpModels, false, older, newer); !strings.Contains(text, "refusal.kind") {
		t.Errorf("two builds differ: %q", text)
	}
	for _, kind := range []string{"overloaded", "nothing"} {
		if _, err := Parse([]byte("[" + asked + `, "want": {"refusal": {"kind": "` + kind + `"}}}]`)); err == nil {
			t.Errorf("kind %q is wanted", kind)
		}
	}
}
