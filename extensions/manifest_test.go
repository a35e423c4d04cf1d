package extensions

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"corenode/extensions/guest"
)

// TestNewManifests: a module that is loaded now has a name of its own and asks for
// no more than there is; one that was taken before these rules serves on.
func TestNewManifests(t *testing.T) {
	set := func(change func(*guest.Manifest)) []byte {
		g := newGuest(SlotChat, "1")
		g.answers = chatAnswers("1")
		change(&g.manifest)
		return g.bytes(t)
	}
	ships := testShipped()
	own := set(func(m *guest.Manifest) { m.Name = "own" })
	ships[0].name, ships[0].digest = "own", digestOf(own)
	cases := []struct {
		name, says string
		wasm       []byte
	}{
		{"a shipped name", `the name "chat" is that of a module of the program`, set(func(m *guest.Manifest) { m.Name = "chat" })},
		{"the shipped name of another slot", `the name "responses"`, set(func(m *guest.Manifest) { m.Name = "responses" })},
		{"another file of that name", `the name "own"`, set(func(m *guest.Manifest) { m.Name, m.Version = "own", "2" })},
		{"that very file", "", own},
		{"too much memory", "memory_max_bytes is 536870913, at most 536870912",
			set(func(m *guest.Manifest) { m.MemoryMaxBytes = 512<<20 + 1 })},
		{"too many ticks, twice", "ticks.per_kb is 200001, at most 200000",
			set(func(m *guest.Manifest) { m.Ticks = guest.Ticks{Call: 200_000_001, PerKB: 200_001} })},
		{"the most of all", "", set(func(m *guest.Manifest) {
			m.MemoryMaxBytes, m.Ticks = 512<<20, guest.Ticks{Call: 200_000_000, PerKB: 200_000}
		})},
	}
	for _, c := range cases {
		h, _ := openWith(t, Options{AllowUnsigned: true}, ships)
		_, err := h.Load(t.Context(), c.wasm, nil, nil)
		var refused *guest.LoadError
		if (err == nil) != (c.says == "") || err != nil && (!errors.As(err, &refused) || refused.Stage != "manifest" ||
			refused.Fix == "" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if o, err := OpenOffline(c.wasm, nil); c.name == "a shipped name" || c.name == "too much memory" {
			if err == nil {
				t.Errorf("module check takes %s", c.name)
				o.Close()
			}
		}

		// A file that an earlier version of the program took, and its state.
		o := Options{Dir: t.TempDir(), AllowUnsigned: true}
		h, _ = openWith(t, o, ships)
		writeTestFile(t, h.folder.path(digestOf(c.wasm), extWasm), c.wasm)
		h.state.Slots = map[Slot]wanted{SlotChat: {Active: digestOf(c.wasm)}}
		h.folder.saveOrSay(&h.state)
		_ = h.Close()
		h, l := openWith(t, o, ships)
		if got := stateOf(t, h, digestOf(c.wasm)); got != StateActive {
			t.Errorf("%s, after a restart: %s\n%s", c.name, got, l)
		}
		_ = h.Close()
	}
}

// FuzzManifest: what is accepted is written and read back the same.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"name":"a","kind":"billing","version":"1","abi":"1.0","free":true,"ticks":{"call":5}}`))
	f.Add([]byte(`{"name":"a","kind":"translator","protocol":"chat","version":"1","abi":"1.0"}`))
	f.Add([]byte(`{"name":"a","kind":"translator","protocol":"o","version":"1","abi":"1.1","framing":"ndjson","keys":[{"query":"k"}],
		"routes":[{"method":"POST","path":"/o/{m}:go","op":"generate"}],"statuses":{"overloaded":529}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := guest.ParseManifest(text)
		if err != nil {
			return
		}
		if slotOf(&m).index() < 0 && !m.HasRoutes() {
			t.Fatalf("an accepted manifest has no slot: %+v", m)
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := guest.ParseManifest(again); err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%+v became %+v, %v", m, back, err)
		}
	})
}
