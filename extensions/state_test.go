package extensions

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// chooseAll makes modules of an operator serve every kind of slot: active
// policies, and a translator beside one with a share of the accounts.
func chooseAll(t *testing.T, o Options) (billing string) {
	t.Helper()
	h, _ := openTest(t, o)
	activate(t, h, chatGuest(t, "1"))
	if _, err := h.Canary(mustLoad(t, h, chatGuest(t, "2")), 40); err != nil {
		t.Fatal(err)
	}
	activate(t, h, admissionGuest(t, abi.Decision{}))
	billing = activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}})).Digest
	_ = h.Close()
	return billing
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writeTestFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestStateCutAnywhere: whatever is left of state.json, the node starts with the
// copy, every module serves as before, and what was found is kept aside.
func TestStateCutAnywhere(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "modules")}
	billing := chooseAll(t, o)
	file, copied := filepath.Join(o.Dir, stateFile), filepath.Join(o.Dir, stateCopy)
	whole := readFile(t, file)
	if !bytes.Equal(whole, readFile(t, copied)) {
		t.Fatal("the copy is not what state.json says")
	}
	var spoiled [][]byte
	for n := range len(whole) - 1 { // the last byte is a line feed
		spoiled = append(spoiled, whole[:n])
	}
	for _, change := range [][2]string{{"}\n", "} {}"}, {"}\n", "}\x00"}, {"sha256", "sha266"}, {`"chat"`, `"chess"`}, {`"chat"`, `"Chat"`},
		{`"slots"`, `"slot"`}, {`: 40`, `: 140`}} {
		text := bytes.Replace(whole, []byte(change[0]), []byte(change[1]), 1)
		if change[0] == "}\n" {
			text = append(bytes.TrimRight(slices.Clone(whole), "\n"), change[1][1:]...)
		}
		if bytes.Equal(text, whole) {
			t.Fatalf("%q changes nothing", change)
		}
		spoiled = append(spoiled, text)
	}
	spoiled = append(spoiled, make([]byte, len(whole)), []byte("null"), []byte("[]"), []byte("\n"))
	for _, text := range spoiled {
		if _, err := parseState(text); err == nil {
			t.Errorf("this is a state: %q", text)
			continue
		}
		if len(text)%16 != 0 && len(text) < len(whole)-2 { // a start takes some milliseconds
			continue
		}
		writeTestFile(t, file, text)
		h, l := openTest(t, o)
		a := h.slot(SlotChat).now.Load()
		if a.active.manifest.Version != "1" || a.canary == nil || a.canaryPercent != 40 || !h.Deciding() || len(h.Closed()) > 0 {
			t.Errorf("after %q: %+v", text, a)
		}
		if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Provisional || c.ModuleDigest != billing {
			t.Errorf("after %q: charged %+v, %v", text, c, err)
		}
		if !h.StateDamaged() || !strings.Contains(l.String(), "its last good copy says which modules serve") {
			t.Errorf("after %q nothing says that a copy was used:\n%s", text, l)
		}
		_ = h.Close()
		if !bytes.Equal(readFile(t, file+extDamaged), text) || !bytes.Equal(readFile(t, file), whole) ||
			!bytes.Equal(readFile(t, copied), whole) {
			t.Errorf("after %q: not moved aside, or not written again", text)
		}
	}
	if len(spoiled) < 400 {
		t.Errorf("only %d ways to spoil it", len(spoiled))
	}
}

// TestDamagedStateEndsByAVerb: a module that is taken out of service is no answer to what the log asks an operator.
func TestDamagedStateEndsByAVerb(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	chooseAll(t, o)
	writeTestFile(t, filepath.Join(o.Dir, stateFile), []byte("{"))
	h, _ := openTest(t, o)
	one := h.slot(SlotChat).now.Load().active
	h.demote(one, "it faults")
	if h.slot(SlotChat).now.Load().active == one || !h.StateDamaged() {
		t.Errorf("after a demotion: %+v, damaged %v", h.slot(SlotChat).now.Load(), h.StateDamaged())
	}
	if _, err := h.Activate(one.digest); err != nil || h.StateDamaged() {
		t.Errorf("after a choice: damaged %v, %v", h.StateDamaged(), err)
	}
	two := mustLoad(t, h, chatGuest(t, "2"))
	if _, err := h.Canary(two, 5); err != nil {
		t.Fatal(err)
	}
	h.stateDamaged.Store(true)
	if _, err := h.Canary(two, 0); err != nil || h.StateDamaged() {
		t.Errorf("after the end of a canary: damaged %v, %v", h.StateDamaged(), err)
	}
}

// TestStateWithoutAFile: the copy stands also for a file that is not there, and
// a whole file for a copy that is not, or is older.
func TestStateWithoutAFile(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   func(t *testing.T, file, copied string)
		damaged bool
	}{
		{"no file", func(t *testing.T, file, _ string) { _ = os.Remove(file) }, true},
		{"no copy", func(t *testing.T, _, copied string) { _ = os.Remove(copied) }, false},
		{"a cut copy", func(t *testing.T, _, copied string) { writeTestFile(t, copied, []byte(`{"slots"`)) }, false},
		{"an older copy", func(t *testing.T, _, copied string) { writeTestFile(t, copied, []byte("{}\n")) }, false},
	} {
		o := Options{Dir: t.TempDir()}
		chooseAll(t, o)
		file, copied := filepath.Join(o.Dir, stateFile), filepath.Join(o.Dir, stateCopy)
		whole := readFile(t, file)
		c.spoil(t, file, copied)
		h, _ := openTest(t, o)
		if a := h.slot(SlotChat).now.Load(); a.active.manifest.Version != "1" || h.StateDamaged() != c.damaged || len(h.Closed()) > 0 {
			t.Errorf("%s: %+v, damaged %v", c.name, a, h.StateDamaged())
		}
		_ = h.Close()
		if !bytes.Equal(readFile(t, file), whole) || !bytes.Equal(readFile(t, copied), whole) {
			t.Errorf("%s: not written again", c.name)
		}
		h, _ = openTest(t, o)
		if h.StateDamaged() {
			t.Errorf("%s: still damaged at the start after", c.name)
		}
		_ = h.Close()
	}
}

// TestStateLost: with neither file nor copy nothing that ships stands for good
// in a slot whose modules lie in the folder, also after more starts, until an
// operator chooses.
func TestStateLost(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"cut":   func(t *testing.T, path string) { writeTestFile(t, path, readFile(t, path)[:100]) },
		"empty": func(t *testing.T, path string) { writeTestFile(t, path, nil) },
		"gone":  func(_ *testing.T, path string) { _ = os.Remove(path) },
	} {
		o := Options{Dir: t.TempDir()}
		billing := chooseAll(t, o)
		for _, file := range []string{stateFile, stateCopy} {
			spoil(t, filepath.Join(o.Dir, file))
		}
		for start := range 2 {
			h, l := openTest(t, o)
			for _, s := range Slots {
				chosen := s == SlotChat || s == SlotBilling || s == SlotAdmission // no file is for the others
				if h.Missing(s) != chosen {
					t.Errorf("%s, start %d: slot %s is missing: %v", name, start, s, h.Missing(s))
				}
			}
			if _, err := h.Decide("", abi.AdmissionInput{}); err == nil || len(h.Closed()) == 0 {
				t.Errorf("%s, start %d: admission is open, %v", name, start, err)
			}
			if c, err := h.Rate("", ratingCharge, nil); err != nil || !c.Provisional || c.Amount != nativeAmount {
				t.Errorf("%s, start %d: charged %+v, %v", name, start, c, err)
			}
			if got := request(t, h, "a"); got != `{"by":"native"}` {
				t.Errorf("%s, start %d: %s translates", name, start, got)
			}
			said := strings.Contains(l.String(), `slots_missing="admission billing chat"`)
			if said != (start == 0) || h.StateDamaged() != (start == 0) {
				t.Errorf("%s, start %d: damaged %v\n%s", name, start, h.StateDamaged(), l)
			}
			if rows := missingRows(h); len(rows) != 3 || !strings.Contains(rows[0].Error, "module activate") {
				t.Errorf("%s, start %d: listed %+v", name, start, rows)
			}
			if start == 1 {
				choose(t, h, billing)
			}
			_ = h.Close()
		}
		h, _ := openTest(t, o)
		c, err := h.Rate("", ratingCharge, nil)
		if err != nil || c.Provisional || c.ModuleDigest != billing || len(h.Closed()) > 0 || len(missingRows(h)) > 0 {
			t.Errorf("%s, after the choice: %+v, %v, closed %v", name, c, err, h.Closed())
		}
		_ = h.Close()
	}
}

func missingRows(h *Host) (rows []Info) {
	for _, i := range h.Modules() {
		if i.State == StateMissing {
			rows = append(rows, i)
		}
	}
	return rows
}

// choose takes what ships for admission and chat, and the operator's own for billing.
func choose(t *testing.T, h *Host, billing string) {
	t.Helper()
	for _, s := range []Slot{SlotAdmission, SlotChat} {
		if _, err := h.Rollback(s); err != nil {
			t.Error(err)
		}
	}
	if err := h.Remove(billing); err != nil { // charges may name it: its file stays
		t.Error(err)
	}
	if _, err := os.Stat(h.folder.path(billing, extWasm)); err != nil {
		t.Error(err)
	}
	wasm := readFile(t, h.folder.path(billing, extWasm))
	activate(t, h, wasm)
	if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Provisional || c.ModuleDigest != billing {
		t.Errorf("charged %+v, %v", c, err)
	}
}

// TestStateOfNobody: where no operator ever chose, nothing is missing, whatever
// an earlier version of the program left, and a module that was only loaded is
// no choice.
func TestStateOfNobody(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	mustLoad(t, h, admissionGuest(t, abi.Decision{}))
	_ = h.Close()
	h, _ = openTest(t, o)
	if len(h.Closed()) > 0 || h.StateDamaged() {
		t.Error("a module that was loaded, and never had a role, is missing")
	}
	_ = h.Close()

	o = Options{Dir: t.TempDir()}
	old := newGuest(SlotBilling, "0")
	old.manifest.Name = "tariff"
	wasm := old.bytes(t)
	writeTestFile(t, filepath.Join(o.Dir, strings.TrimPrefix(digestOf(wasm), digestPrefix)+extWasm), wasm)
	h, _ = openTest(t, o)
	if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Provisional || h.Missing(SlotBilling) || h.StateDamaged() {
		t.Errorf("the tariff of another version is a choice: %+v, %v", c, err)
	}
	if err := h.Remove(digestOf(wasm)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(h.folder.path(digestOf(wasm), extWasm)); err != nil {
		t.Errorf("charges may name it: %v", err)
	}
	_ = h.Close()

	o = Options{Dir: t.TempDir()}
	writeTestFile(t, filepath.Join(o.Dir, strings.Repeat("0", 64)+extWasm), []byte("no module"))
	h, _ = openTest(t, o)
	if !h.Missing(SlotBilling) || len(h.Closed()) == 0 {
		t.Error("a file that may have been any module is none")
	}
}

// TestShippedOutOfServiceHasItsName: a shipped module that failed before the start, or that is denied, is found by its own name, and
// one that failed serves again when an operator says so.
func TestShippedOutOfServiceHasItsName(t *testing.T) {
	g := newGuest(SlotChat, "1.0.0")
	g.manifest.Name = "chat"
	wasm := g.bytes(t)
	for state, o := range map[string]Options{
		StateFailed: {},
		StateDenied: {Denied: denials(t, digestOf(wasm))},
	} {
		o.Dir, o.AllowUnsigned = t.TempDir(), true
		if state == StateFailed {
			writeTestFile(t, filepath.Join(o.Dir, stateFile), fmt.Appendf(nil, `{"failed":{%q:"it faulted"}}`, digestOf(wasm)))
		}
		h, _ := openWith(t, o, append(testShipped(), shippedModule{slot: SlotChat, name: "chat", native: nativeChat("native"),
			nativeAs: "builtin:chat", digest: digestOf(wasm), wasm: func() ([]byte, error) { return wasm, nil }}))
		if i, err := h.Module("chat@1.0.0"); err != nil || i.State != state || i.Digest != digestOf(wasm) {
			t.Errorf("%s: %+v, %v", state, i, err)
		}
		if i, err := h.Activate("chat@1.0.0"); state == StateFailed && (err != nil || i.State != StateActive) ||
			state == StateDenied && !errors.Is(err, ErrDenied) {
			t.Errorf("%s: %+v, %v", state, i, err)
		}
	}
}

// TestTariffOfAnEarlierVersionIsKept: what shipped with an earlier version charged, though no verb made it serve and no state
// names it: its file stays for replays when it is removed, on a data folder and in a cluster.
func TestTariffOfAnEarlierVersionIsKept(t *testing.T) {
	tariff := func(version string) []byte {
		g := newGuest(SlotBilling, version)
		g.manifest.Name = "tariff"
		return g.bytes(t)
	}
	one, two := tariff("1"), tariff("2")
	for _, r := range []*row{nil, {}} {
		o := Options{Dir: t.TempDir(), AllowUnsigned: true}
		open := func(wasm []byte) *Host {
			if r != nil {
				o.Keep, o.State, o.Number = r.keep, r.text, r.number
			}
			h, _ := openWith(t, o, []shippedModule{{slot: SlotBilling, name: "tariff", native: declineAll, nativeAs: "builtin:tariff",
				digest: digestOf(wasm), wasm: func() ([]byte, error) { return wasm, nil }}})
			if a := h.slot(SlotBilling).now.Load(); a.active.digest != digestOf(wasm) {
				t.Fatalf("%s serves", a.active.title())
			}
			return h
		}
		_ = open(one).Close()
		h := open(two)
		writeTestFile(t, h.folder.path(digestOf(chatGuest(t, "1")), extWasm), chatGuest(t, "1"))
		_ = h.Close()
		h = open(two)
		for _, removed := range [][]byte{one, chatGuest(t, "1")} {
			if err := h.Remove(digestOf(removed)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if g, err := h.reopen(digestOf(one)); err != nil {
				t.Errorf("a replay of its charges: %v", err)
			} else {
				g.retire()
			}
			if m, err := h.Module(digestOf(one)); err == nil {
				t.Errorf("it is listed: %+v", m)
			}
			if unneeded := h.Unneeded(); slices.Contains(unneeded, digestOf(one)) || r != nil && len(unneeded) != 1 {
				t.Errorf("nobody needs %v", unneeded)
			}
			_ = h.Close()
			h = open(two)
		}
		if _, err := os.Stat(h.folder.path(digestOf(chatGuest(t, "1")), extWasm)); (err == nil) != (r != nil) {
			t.Errorf("the file of a module that never charged: %v", err)
		}
	}
}

// TestHalvesOfAKillAreRemoved: what was being written when a kill came goes when the folder is opened. All else stays.
func TestHalvesOfAKillAreRemoved(t *testing.T) {
	dir := t.TempDir()
	hex := strings.TrimPrefix(digestOf([]byte("none")), digestPrefix)
	left := []string{".state.json-17", ".state.copy.json-18", "." + hex + ".wasm-1", "." + hex + ".sig-2", "." + hex + ".config.json-3",
		hex + ".wasm.part", "state.json.part"}
	kept := []string{".state.json", ".notes-17", "." + hex + ".wasm-1a", hex + ".sig", "notes.part", "state.json.damaged", hex + "-1"}
	for _, name := range append(left, kept...) {
		writeTestFile(t, filepath.Join(dir, name), []byte("half"))
	}
	openTest(t, Options{Dir: dir})
	for i, name := range append(left, kept...) {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != (i >= len(left)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnreadableFilesAreAllNamed: a start that parts of modules keep from beginning says of all that cannot be read.
func TestUnreadableFilesAreAllNamed(t *testing.T) {
	dir := t.TempDir()
	var unreadable []string
	for _, digit := range []string{"0", "1"} {
		name := strings.Repeat(digit, 64)
		writeTestFile(t, filepath.Join(dir, name+extWasm), nil)
		for _, ext := range []string{extSignature, extConfig} {
			path := filepath.Join(dir, name+ext)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			unreadable = append(unreadable, path)
		}
	}
	_, err := Open(Options{Dir: dir})
	for _, path := range unreadable {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s is not named: %v", path, err)
		}
	}
}

// TestANameIsThatOfWhatShips: however many copies of it earlier versions of the program left; among such copies alone it is nobody's.
func TestANameIsThatOfWhatShips(t *testing.T) {
	of := func(digest string, shipped bool) *module {
		return &module{digest: digestPrefix + digest, shipped: shipped, known: true, manifest: guest.Manifest{Name: "tariff", Version: "1"}}
	}
	r := registry{}
	for _, m := range []*module{of("aaaaaa1", false), of("aaaaaa2", false), of("bbbbbb3", true)} {
		r[m.digest] = m
	}
	for range 30 { // a map is read in any order
		if m, err := r.find("tariff@1"); err != nil || !m.shipped {
			t.Fatalf("%+v, %v", m, err)
		}
		if m, err := r.find("bbbbbb"); err != nil || !m.shipped {
			t.Fatalf("%+v, %v", m, err)
		}
		if _, err := r.find("aaaaaa"); !errors.Is(err, ErrAmbiguous) {
			t.Fatal(err)
		}
	}
	delete(r, digestPrefix+"bbbbbb3")
	if _, err := r.find("tariff@1"); !errors.Is(err, ErrAmbiguous) {
		t.Error(err)
	}
}

// TestChanged: what a verb has changed is wanted, and what it leaves alone stays wanted though it is not in memory.
func TestChanged(t *testing.T) {
	a, b, c := &generation{digest: "a"}, &generation{digest: "b"}, &generation{digest: "c"}
	ships := &generation{digest: "s", shipped: true}
	all := wanted{Active: "a", Canary: "b", CanaryPercent: 5, Shadow: "c", ShadowPercent: 7, Previous: "d"}
	running := assignment{active: a, canary: b, canaryPercent: 5, shadow: &shadow{generation: c, percent: 7}}
	change := func(of assignment, change func(*assignment)) assignment {
		change(&of)
		return of
	}
	absent := wanted{Active: "a", Shadow: "c", ShadowPercent: 7, Previous: "d"} // the shadow is not in memory
	for name, test := range map[string]struct {
		was           wanted
		before, after assignment
		decided       bool
		want          wanted
	}{
		"nothing":              {all, running, running, false, all},
		"none is in memory":    {all, assignment{missing: true}, assignment{missing: true}, false, all},
		"one stands in for it": {all, assignment{active: a}, assignment{active: ships, missing: true}, false, all},
		"the shadow's share": {all, running, change(running, func(a *assignment) { a.shadow = &shadow{generation: c, percent: 8} }), false,
			wanted{Active: "a", Canary: "b", CanaryPercent: 5, Shadow: "c", ShadowPercent: 8, Previous: "d"}},
		"no shadow": {all, running, change(running, func(a *assignment) { a.shadow = nil }), false,
			wanted{Active: "a", Canary: "b", CanaryPercent: 5, Previous: "d"}},
		"no canary": {all, running, change(running, func(a *assignment) { a.canary, a.canaryPercent = nil, 0 }), false,
			wanted{Active: "a", Shadow: "c", ShadowPercent: 7, Previous: "d"}},
		"another serves": {absent, assignment{active: a}, assignment{active: b, previous: a}, true,
			wanted{Active: "b", Shadow: "c", ShadowPercent: 7, Previous: "a"}},
		"what stood in is chosen": {wanted{Active: "a", Previous: "d"}, assignment{active: ships, missing: true}, assignment{active: ships}, true,
			wanted{Active: wantShipped}},
		"the absent shadow serves": {absent, assignment{active: a}, assignment{active: c, previous: a}, true, wanted{Active: "c", Previous: "a"}},
		"the absent shadow is a canary": {absent, assignment{active: a}, assignment{active: a, canary: c, canaryPercent: 1}, false,
			wanted{Active: "a", Canary: "c", CanaryPercent: 1, Previous: "d"}},
	} {
		if got := test.was.changed(&test.before, &test.after, test.decided); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
