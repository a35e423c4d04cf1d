package extensions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"corenode/extensions/compare"
	"corenode/extensions/guest"
)

// States of a module.
const (
	StateBuiltin  = "builtin"  // a native build
	StateStored   = "stored"   // on disk or in the program, not in memory
	StateLoading  = "loading"  // being built
	StateLoaded   = "loaded"   // in memory, without a role
	StateShadow   = "shadow"   // repeats calls
	StateCanary   = "canary"   // serves a share of the accounts
	StateActive   = "active"   // serves
	StatePrevious = "previous" // kept for a rollback
	StateFailed   = "failed"   // Error says why
	StateDenied   = "denied"   // modules.denied has it
	StateMissing  = "missing"  // of no module, but a slot whose module is not known any more
)

// Info is what an operator sees of a module.
type Info struct {
	Slot         Slot            `json:"slot" doc:"chat, responses, billing, admission, rewrite, filter, a later place such as filter.2, or a protocol of its own."`
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Kind         string          `json:"kind"`
	Digest       string          `json:"digest" doc:"sha256: and hex; builtin: for a native build."`
	Runtime      string          `json:"runtime"`
	Description  string          `json:"description,omitempty" doc:"What it says of itself, for people."`
	ConfigSchema json.RawMessage `json:"config_schema,omitempty" doc:"The JSON Schema of its configuration, if its manifest has one."`
	// ConfigSHA256 tells configurations apart, which may hold secrets: of the one it is loaded with,
	// without white space between its tokens. "" is none.
	ConfigSHA256 string `json:"config_sha256,omitempty" doc:"SHA-256 in hex of the configuration that it is loaded with, without white space between its tokens. Absent without one."`

	State    string `json:"state" enum:"builtin,stored,loading,loaded,shadow,canary,active,previous,failed,denied,missing"`
	Serving  bool   `json:"serving" doc:"Requests get to it now."`
	Error    string `json:"error,omitempty" doc:"Why it failed."`
	Note     string `json:"note,omitempty" doc:"What to know though it was accepted."`
	SignedBy string `json:"signed_by,omitempty"`
	Signed   bool   `json:"signed"`
	Shipped  bool   `json:"shipped"`

	Generation int       `json:"generation"`
	Percent    int       `json:"percent,omitempty" doc:"Of a canary or shadow."`
	Loaded     time.Time `json:"loaded,omitzero"`
	CompileMS  int64     `json:"compile_ms" doc:"The whole load path."`
	Size       int       `json:"size" doc:"Of the file, bytes."`

	Calls            uint64            `json:"calls"`
	Requests         uint64            `json:"requests" doc:"Requests that it worked for; a native build counts none."`
	Faults           map[string]uint64 `json:"faults,omitempty" doc:"By cause."`
	Declined         uint64            `json:"declined"`
	Fallbacks        uint64            `json:"fallbacks" doc:"Calls that the native build answered in its place."`
	Ticks            uint64            `json:"ticks"`
	CPU              time.Duration     `json:"cpu_ns" doc:"Measured on a part of the calls, estimated from their ticks for the others."`
	BytesIn          uint64            `json:"bytes_in"`
	BytesOut         uint64            `json:"bytes_out"`
	ShadowRuns       uint64            `json:"shadow_runs"`
	ShadowMismatches uint64            `json:"shadow_mismatches"`
	ShadowDropped    uint64            `json:"shadow_dropped"`
	Metrics          map[int]int64     `json:"metrics,omitempty" doc:"What the module counts itself, by id."`

	Instances     int   `json:"instances"`
	InstancesBusy int   `json:"instances_busy"`
	MemoryBytes   int64 `json:"memory_bytes" doc:"Of all instances."`
}

// missingUnknown is what an operator reads of such a slot.
const missingUnknown = "state.json was lost, so it is not known which module served: charges are provisional, admission is closed. " +
	"Choose with: corenode module activate MODULE, or corenode module rollback SLOT for what ships"

// Modules lists every module: by slot, the native build first. A slot whose
// choice of a module was lost has an entry without a module.
func (h *Host) Modules() []Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Info
	for _, m := range h.modules {
		if !m.removed {
			all = append(all, h.infoOf(m))
		}
	}
	for _, sl := range h.allSlots() {
		if h.state.Slots[sl.name].Active == wantUnknown {
			all = append(all, Info{Slot: sl.name, State: StateMissing, Error: missingUnknown})
		}
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(a.Slot.compare(b.Slot), cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.Generation, b.Generation), strings.Compare(a.Digest, b.Digest))
	})
	return all
}

func rank(i Info) int {
	if i.State == StateBuiltin {
		return 0
	}
	return 1
}

// Module shows one module.
func (h *Host) Module(ref string) (Info, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := h.modules.find(ref)
	if err == nil {
		return h.infoOf(m), nil
	}
	for _, m := range h.modules { // a name is enough to look at the one that serves
		if i := h.infoOf(m); m.known && !m.removed && i.Serving && i.State == StateActive && m.manifest.Ref() == ref {
			return i, nil
		}
	}
	return Info{}, err
}

func (h *Host) info(digest string) (Info, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.modules[digest]
	if m == nil {
		return Info{}, fmt.Errorf("%q: %w", digest, ErrUnknownModule)
	}
	return h.infoOf(m), nil
}

// infoOf describes a module. mu is held.
func (h *Host) infoOf(m *module) Info {
	f := &m.manifest
	i := Info{Slot: slotOf(f), Name: f.Name, Version: f.Version, Kind: f.Kind, Digest: m.digest, Runtime: f.Runtime,
		Description: f.Description, ConfigSchema: f.ConfigSchema, Error: m.failed, Shipped: m.shipped, Size: m.size, State: StateStored}
	if len(m.config) > 0 {
		i.ConfigSHA256 = strings.TrimPrefix(digestOf(m.config), digestPrefix)
	}
	switch {
	case m.loading:
		i.State = StateLoading
	case m.denied != nil:
		i.State, i.Error = StateDenied, m.denied.Error()
	case m.failed != "":
		i.State = StateFailed
	}
	g := m.generation
	if g == nil {
		if m.failed != "" && m.last != nil {
			i.counted(*m.last)
		}
		return i
	}
	i.describe(g)
	i.place(h.slot(i.Slot).now.Load(), g)
	return i
}

// place says what role a generation has.
func (i *Info) place(a *assignment, g *generation) {
	switch {
	case a.active == g:
		i.State, i.Serving = StateActive, true
	case a.canary == g:
		i.State, i.Serving, i.Percent = StateCanary, true, a.canaryPercent
	case a.shadow != nil && a.shadow.generation == g:
		i.State, i.Percent = StateShadow, a.shadow.percent
	case a.previous == g:
		i.State = StatePrevious
	default:
		i.State = StateLoaded
	}
	if g.native != nil {
		i.State = StateBuiltin
	}
}

// describe fills in what a generation in memory knows.
func (i *Info) describe(g *generation) {
	i.Generation, i.Loaded, i.CompileMS = g.number, g.loaded, g.compile.Milliseconds()
	i.SignedBy, i.Signed, i.Note, i.Size = g.signedBy, g.signedBy != "", g.note, g.size
	if g.pool != nil {
		u := g.pool.Use()
		i.Instances, i.InstancesBusy, i.MemoryBytes = u.Instances, u.Busy, u.MemoryBytes
	}
	i.counted(g.counts())
}

// counts are what a generation and its calls have counted.
type counts struct {
	guest.Counters
	requests, declined, fallbacks, shadowRuns, shadowMismatches, shadowDropped uint64

	faults  [guest.CauseEnd]uint64
	metrics map[int]int64
}

func (g *generation) counts() counts {
	t := &g.tally
	c := counts{Counters: g.nativeDone.load(), declined: t.declined.Load(), fallbacks: t.fallbacks.Load(),
		shadowRuns: t.shadowRuns.Load(), shadowMismatches: t.shadowMismatches.Load(), shadowDropped: t.shadowDropped.Load()}
	if g.pool != nil {
		use := g.pool.Use()
		c.Counters, c.requests, c.metrics = use.Total(), t.requests.Load(), g.module.Metrics()
	}
	for n := range t.faults {
		c.faults[n] = t.faults[n].Load()
	}
	return c
}

func (i *Info) counted(c counts) {
	i.Calls, i.Ticks, i.CPU, i.BytesIn, i.BytesOut = c.Calls, c.Ticks, c.CPU, c.BytesIn, c.BytesOut
	i.Requests, i.Declined, i.Fallbacks, i.Metrics = c.requests, c.declined, c.fallbacks, maps.Clone(c.metrics)
	i.ShadowRuns, i.ShadowMismatches, i.ShadowDropped = c.shadowRuns, c.shadowMismatches, c.shadowDropped
	for n, k := range c.faults {
		if k > 0 {
			if i.Faults == nil {
				i.Faults = map[string]uint64{}
			}
			i.Faults[guest.Cause(n).String()] = k
		}
	}
}

// ShadowReport says how the answers of a module, since it was last made a shadow,
// differ from those of the modules that served. ErrNoShadow: it was none since it
// was brought into memory.
func (h *Host) ShadowReport(ref string) (compare.Report, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := h.modules.find(ref)
	if err != nil {
		return compare.Report{}, err
	}
	if m.generation == nil || m.generation.compared.Load() == nil {
		return compare.Report{}, fmt.Errorf("%q: %w", ref, ErrNoShadow)
	}
	i := h.infoOf(m)
	r := m.generation.compared.Load().Report()
	r.Module, r.Digest = m.manifest.Ref(), m.digest
	if i.State == StateShadow {
		r.Percent = i.Percent
	}
	return r, nil
}

// SlotUse is how much of the processors the modules of a slot use.
type SlotUse struct {
	Slot  Slot
	Limit float64       // processors that they may use
	CPU   time.Duration // that they used, by the clock of their threads where there is one
	// Waits are calls that waited for the share, in all for Waited; Declined are
	// those that something else answered because the wait would have been too long.
	Waits, Declined uint64
	Waited          time.Duration
}

// Uses says how much of the processors each slot uses.
func (h *Host) Uses() []SlotUse {
	slots := h.allSlots()
	all := make([]SlotUse, len(slots))
	for i, sl := range slots {
		t := sl.throttle
		all[i] = SlotUse{Slot: sl.name, Limit: t.quota.rate, CPU: time.Duration(t.used.Load()),
			Waits: t.waits.Load(), Waited: time.Duration(t.waited.Load()), Declined: t.declined.Load()}
	}
	return all
}
