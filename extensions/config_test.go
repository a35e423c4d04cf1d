package extensions

import (
	"errors"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
)

// TestConfig: a configuration is an object or nothing, and how it is spaced
// makes no difference.
func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " \n": "", "null": "", "{}\n": "", "{ }": "", " {\"a\" : [1, \"b c\"]}\n": `{"a":[1,"b c"]}`,
		"[1]": "no JSON object", "7": "no JSON object", "{": "no JSON", "{}{}": "no JSON",
	} {
		got, err := guest.Config([]byte(text))
		var refused *guest.LoadError
		if err == nil && string(got) != want || err != nil && (!errors.As(err, &refused) || refused.Stage != "init" ||
			want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}

	var refused *guest.LoadError
	if _, err := guest.Config([]byte(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`)); !errors.As(err, &refused) || refused.Stage != "size" {
		t.Errorf("a configuration that is too long: %v", err)
	}

	// A module whose manifest says what its configuration looks like.
	plain := newGuest(SlotAdmission, "1")
	plain.manifest.ConfigSchema = []byte(`{"type":"object","properties":{"busy":{"type":"integer"}},"additionalProperties":false}`)
	wasmOfPlain := plain.bytes(t)
	limited, _ := openTest(t, Options{Dir: t.TempDir()})
	if _, err := limited.Load(t.Context(), wasmOfPlain, nil, []byte(`{"busy": "no"}`)); !errors.As(err, &refused) || refused.Stage != "config" ||
		!strings.Contains(err.Error(), "configuration.busy: got string, want integer") {
		t.Errorf("a configuration that its schema does not have: %v", err)
	}
	loaded, err := limited.Load(t.Context(), wasmOfPlain, nil, []byte(`{"busy": 7}`))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := limited.Module(loaded.Digest[:20])
	if err != nil || string(shown.ConfigSchema) != string(plain.manifest.ConfigSchema) {
		t.Errorf("it is shown with %s, %v", shown.ConfigSchema, err)
	}

	// A module that refuses all but the two bytes of an empty object.
	strict := newGuest(SlotChat, "1")
	strict.config = func(c *wasmtest.Code) {
		c.Get(0).I32(2).Op(wasmtest.I32Ne).If(wasmtest.Void).Op(wasmtest.Unreachable).End().I64(strict.place(okFrame(nil)))
	}
	wasm := strict.bytes(t)
	h, _ := openTest(t, Options{})
	for _, config := range []string{"{}\n", "{ }", "null", ""} {
		if _, err := h.Load(t.Context(), wasm, nil, []byte(config)); err != nil {
			t.Errorf("load with %q: %v", config, err)
		}
	}
	o, err := OpenOffline(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	i, err := o.Instance([]byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	i.Close()
}
