package extensions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// shortName is a name for each number, as short as they can be.
func shortName(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&()*+,-./:;<=>?@[]^_{|}~"
	var name []byte
	for ; n > 0; n /= len(letters) {
		name = append(name, letters[n%len(letters)])
	}
	return string(append(name, 'x'))
}

// schemaBodies are requests whose schemas are deep or have many properties; mixed is another number for each.
func schemaBodies(mixed func(i int) int) map[string]string {
	nested := strings.Repeat(`{"items":`, scan.DepthMax/2) + `{"properties":{` + strings.Repeat(`"p":{},`, guest.BodyBytesFair/10) +
		`"p":{}}}` + strings.Repeat(`}`, scan.DepthMax/2)
	declared := func(key, schema string) string {
		return `{"tools":[{"functionDeclarations":[{"name":"f","` + key + `":` + schema + `}]}],"contents":[{"parts":[{"text":"q"}]}]}`
	}
	enum := `{"enum":[` + strings.Repeat(`0,`, guest.BodyBytesFair*2/5) + `0]}`
	nest := func(before, after string) string { // as deep as a body may be
		const levels = (scan.DepthMax - 8) / 2
		return strings.Repeat(before, levels) + enum + strings.Repeat(after, levels)
	}
	properties := nest(`{"properties":{"b":{},"a":`, `},"propertyOrdering":["a"]}`)
	many := func(item func(n int) string) string { // in half of a body
		items := make([]string, guest.BodyBytesFair/25)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ",")
	}
	long := strings.Repeat("x", guest.BodyBytesFair/5)
	return map[string]string{
		"nested schemas":         declared("parameters", nested),
		"nested properties":      declared("parameters", properties),
		"nested JSON properties": declared("parametersJsonSchema", properties),
		"nested orders":          declared("parametersJsonSchema", nest(`{"properties":{"b":{},"a":{}},"propertyOrdering":[`, `]}`)),
		"an order of many": declared("parameters", `{"properties":{`+many(func(n int) string { return fmt.Sprintf(`"%d":{}`, mixed(n)) })+
			`},"propertyOrdering":[`+many(func(n int) string { return fmt.Sprintf(`"%d"`, n) })+`]}`),
		"long names": declared("parameters", `{"properties":{"`+long+`a":{},"`+long+`b":{}},"propertyOrdering":["`+long+`b","`+long+`a"]}`),
	}
}

// TestShippedCope: no body of a size that is fair takes all ticks of a shipped
// translator; a client could take it out of service with a few.
func TestShippedCope(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles Go guests, which takes seconds: left out of -short")
	}
	members := func(name func(i int) string) string { // an object of about half the size
		b := []byte{'{'}
		for i := 0; len(b) < guest.BodyBytesFair*7/10; i++ {
			b = fmt.Appendf(b, `"%s":1,`, name(i))
		}
		return string(append(b, `"":1}`...))
	}
	mixed := func(i int) int { return i * 7919 % 1_000_003 }
	objects := map[string]string{
		"names in order":    members(func(i int) string { return fmt.Sprintf("%x", i) }),
		"names in disorder": members(func(i int) string { return fmt.Sprint(mixed(i)) }),
		"short names":       members(shortName),
		"small objects": `{"x":[` + strings.Repeat(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1},`,
			guest.BodyBytesFair/74) + `1]}`,
		"tiny objects":  `{"x":[` + strings.Repeat(`{"":1},`, guest.BodyBytesFair/10) + `1]}`,
		"long prefixes": members(func(i int) string { return strings.Repeat("x", 100) + fmt.Sprint(mixed(i)) }),
		"escapes":       members(func(i int) string { return `\u0041` + fmt.Sprint(mixed(i)) }),
	}
	deep := strings.Repeat(strings.Repeat("[", 120)+strings.Repeat("]", 120)+",", guest.BodyBytesFair/250)
	found := func(before, in, after string) string { // a search of tools that found much
		return `{"model":"m","input":[{"type":"tool_search_output","execution":"client","call_id":"a","tools":[` + before +
			strings.Repeat(in, guest.BodyBytesFair/10) + `{}` + after + `]}]}`
	}
	namespaces := func(name string) string { // as deep as a body may be
		const levels = (scan.DepthMax - 6) / 2
		return found(strings.Repeat(`{"type":"namespace",`+name+`"tools":[`, levels), `{"":1},`, strings.Repeat(`]}`, levels))
	}
	bodies := map[Slot]map[string]string{
		SlotChat: {
			"deep": `{"x":[` + deep + `1],"model":"m","messages":[{"role":"user","content":""}]}`,
			"parts": `{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":[{"type":"text","text":""}]},`,
				guest.BodyBytesFair/56) + `{"role":"user","content":""}]}`,
		},
		SlotResponses: {
			"deep":  `{"x":[` + deep + `1],"model":"m","input":""}`,
			"parts": `{"model":"m","input":[` + strings.Repeat(`{"role":"user","content":[{"type":"input_text","text":""}]},`, guest.BodyBytesFair/62) + `{"role":"user","content":""}]}`,
			"found tools": found(`{"type":"namespace","name":"n","description":"","tools":[{"type":"function","name":"f","parameters":{"x":[`,
				`{"":1},`, `]}}]}`),
			"namespaces":           namespaces(`"name":"n",`),
			"namespaces, no names": namespaces(""),
		},
	}
	bodies["generate-content"] = schemaBodies(mixed)
	for name, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		bodies[SlotChat]["arguments with "+name] = `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":` + string(text) + `}}]}]}`
		bodies[SlotChat]["a schema with "+name] = `{"model":"m","messages":[{"role":"user","content":""}],"tools":[{"function":{"name":"f","parameters":` + object + `}}]}`
		bodies[SlotResponses]["arguments with "+name] = `{"model":"m","input":[{"type":"function_call","call_id":"a","name":"f","arguments":` + string(text) + `}]}`
		bodies[SlotResponses]["a schema with "+name] = `{"model":"m","input":"","tools":[{"type":"function","name":"f","parameters":` + object + `}]}`
	}
	for _, s := range shippedModules() {
		if s.slot == SlotBilling {
			continue
		}
		wasm, err := s.wasm()
		if err != nil {
			t.Fatal(err)
		}
		m, err := OpenOffline(wasm, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for name, body := range bodies[s.slot] {
			in := abi.RequestInput{Body: []byte(body)}.Append(nil)
			i, err := m.Instance(nil)
			if err != nil {
				t.Fatal(err)
			}
			_, ticks, err := i.Call(abi.OpRequest, in, nil)
			i.Close()
			t.Logf("%s, %s, %d bytes: %d%% of its ticks", s.name, name, len(in), 100*ticks/m.Manifest.Budget(abi.OpRequest, len(in)))
			if err != nil {
				t.Errorf("%s, %s: %v", s.name, name, err)
			}
		}
	}
}

// TestShippedErrorIsWhole: a stream of the responses protocol that breaks says
// once more what was asked and answered, however long that is.
func TestShippedErrorIsWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a Go guest, which takes seconds: left out of -short")
	}
	var shipped []shippedModule
	for _, s := range shippedModules() {
		if s.slot == SlotResponses {
			shipped = append(shipped, s)
		}
	}
	h, l := openWith(t, Options{}, shipped)
	tr := h.Translate(SlotResponses, "a", "", abi.Facts{ID: "x", Stream: true})
	defer tr.Close()
	long := strings.Repeat("x", 200<<10)
	if _, err := tr.Request([]byte(`{"model":"m","input":"a","stream":true,"instructions":"` + long + `"}`)); err != nil {
		t.Fatal(err)
	}
	out := tr.Error(nil, &abi.Error{Kind: abi.Overloaded, Msg: "late"}, 503)
	if n := strings.Count(string(out), long); n != 2 || !strings.Contains(string(out), "event: error\n") {
		t.Errorf("%d bytes with %d of the instructions, want 2", len(out), n)
	}
	if i, err := h.info(shipped[0].digest); err != nil || len(i.Faults) > 0 || i.Fallbacks > 0 || !i.Serving {
		t.Errorf("%+v, %v\n%s", i, err, l)
	}
}
