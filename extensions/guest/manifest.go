package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// Names of the custom sections of a module file.
const (
	ManifestSection = "corenode.manifest"
	VectorsSection  = "corenode.vectors"
)

// Kinds of modules.
const (
	KindTranslator = "translator"
	KindBilling    = "billing"
	KindAdmission  = "admission"
	KindRewrite    = "rewrite"
	KindFilter     = "filter"
)

// PlacesMax is how many policies of a kind may serve one after the other; of billing there
// is one.
const PlacesMax = 4

// PolicySlot is the slot of the policies of a kind at a place, which counts from 1.
func PolicySlot(kind string, place int) string {
	if place <= 1 {
		return kind
	}
	return kind + "." + strconv.Itoa(place)
}

// IsPolicySlot says whether a name is that of a later place of a kind.
func IsPolicySlot(name string) bool {
	for _, kind := range []string{KindAdmission, KindRewrite, KindFilter} {
		for place := 2; place <= PlacesMax; place++ {
			if name == PolicySlot(kind, place) {
				return true
			}
		}
	}
	return false
}

// Protocols of translators.
const (
	ProtocolChat      = "chat"
	ProtocolResponses = "responses"
)

// notProtocols are names that a protocol cannot have: those of other slots, and the node's own.
var notProtocols = []string{"messages", KindBilling, KindAdmission, KindRewrite, KindFilter, KindTranslator, "native", "shipped", "unknown"}

// Manifest is what a module says of itself, as JSON in its custom section
// "corenode.manifest". Unknown keys are errors.
type Manifest struct {
	Name string `json:"name"` // [a-z0-9][a-z0-9._-]{0,63}
	Kind string `json:"kind"` // translator, billing, admission, rewrite or filter
	// Place of a policy among those of its kind, which are asked in this order: 1 to
	// PlacesMax, 0 is 1. Modules of one place take turns, those of others serve as well.
	Place       int    `json:"place,omitempty"`
	Protocol    string `json:"protocol,omitempty"` // of a translator: chat, responses, or a name of its own with Routes
	Version     string `json:"version"`            // shown and used in references: name@version
	ABI         string `json:"abi"`                // "1.0" or "1.1": which records it is given
	Runtime     string `json:"runtime,omitempty"`  // "go" allows the imports and float instructions of Go's runtime
	Description string `json:"description,omitempty"`
	// ConfigSchema is what its configuration looks like, a JSON Schema; see schema.go. nil: anything.
	ConfigSchema json.RawMessage `json:"config_schema,omitempty"`
	Routing
	// History: a translator wants the whole answer so far with its events.
	History bool `json:"history,omitempty"`
	// Free: a billing module may charge nothing for tokens that were used.
	Free bool `json:"free,omitempty"`
	// Counters of a billing or admission module, which it reserves of for each request.
	// Versions of one name share them.
	Counters []Counter `json:"counters,omitempty"`
	// MemoryMaxBytes caps the memory of one instance. 0 = memoryDefault; more than
	// memoryMax is refused at load, and cut in a module that was taken before.
	MemoryMaxBytes int64 `json:"memory_max_bytes,omitempty"`
	// Ticks bounds the work of one call; see ticks.go. 0 = the default.
	Ticks Ticks `json:"ticks,omitzero"`
}

// Counter is a number that a policy keeps for each account and period of time.
type Counter struct {
	Name   string `json:"name"`
	Period string `json:"period"` // day or month, in UTC, of the time of admission
}

// The periods of counters, as layouts of the times in them.
var periods = map[string]string{"day": "2006-01-02", "month": "2006-01"}

// Takes are the counters of a quote or a decision made at a time, as the node names them.
// They are as many as the manifest has.
func (m *Manifest) Takes(takes []abi.Take, at int64) []abi.Counter {
	if len(takes) == 0 {
		return nil
	}
	all := make([]abi.Counter, len(takes))
	for i, t := range takes {
		all[i] = abi.Counter{Name: m.counterName(i), Period: time.Unix(at, 0).UTC().Format(periods[m.Counters[i].Period]),
			Limit: t.Limit, Amount: t.Max}
	}
	return all
}

// Held is what a request holds of each counter of the manifest.
func (m *Manifest) Held(held []abi.Counter) []int64 {
	if len(m.Counters) == 0 {
		return nil
	}
	all := make([]int64, len(m.Counters))
	for i := range all {
		for _, c := range held {
			if c.Name == m.counterName(i) {
				all[i] = c.Amount
			}
		}
	}
	return all
}

// Named is what an input of a module of this manifest holds, by name.
func (m *Manifest) Named(held []int64) []abi.Counter {
	if len(held) != len(m.Counters) {
		return nil
	}
	all := make([]abi.Counter, len(held))
	for i, n := range held {
		all[i] = abi.Counter{Name: m.counterName(i), Amount: n}
	}
	return all
}

// Taken is what a request of that usage took of what it held: what its charge says, of counters
// of admission modules what follows from the usage. What neither has a say in goes back.
func (m *Manifest) Taken(held []abi.Counter, taken []int64, u abi.Usage) (all []abi.Counter) {
	for _, c := range held {
		c, admission := c.Settled(u)
		if admission {
			all = append(all, c)
			continue
		}
		c.Amount = 0
		for i, n := range taken {
			if c.Name == m.counterName(i) {
				c.Amount = n
			}
		}
		all = append(all, c)
	}
	return all
}

func (m *Manifest) counterName(i int) string {
	return abi.CounterName(m.Kind == KindAdmission, m.Name, m.Counters[i].Name)
}

func (m *Manifest) checkCounters() error {
	if len(m.Counters) > 0 && (m.Kind != KindBilling && m.Kind != KindAdmission || m.ABI != ABI11) {
		return fmt.Errorf("manifest: counters are for billing and admission modules of abi %s", ABI11)
	}
	if len(m.Counters) > abi.CountersMax {
		return fmt.Errorf("manifest: %d counters, at most %d", len(m.Counters), abi.CountersMax)
	}
	for i, c := range m.Counters {
		if !PlainName(c.Name) || periods[c.Period] == "" {
			return fmt.Errorf("manifest: counter %d is %q by %q, want a name of a-z 0-9 . _ - and day or month", i, c.Name, c.Period)
		}
		for _, other := range m.Counters[:i] {
			if other.Name == c.Name {
				return fmt.Errorf("manifest: two counters are called %q", c.Name)
			}
		}
	}
	return nil
}

// Ticks are a call's budget: a tick is one function call or loop round.
type Ticks struct {
	Call  int64 `json:"call,omitempty"`   // of every call
	PerKB int64 `json:"per_kb,omitempty"` // more for each 1024 bytes of input
}

// What a manifest may say in abi. A module is given the records of the version
// that it says, for ever.
const (
	ABI10 = "1.0"
	ABI11 = "1.1" // decide says more of the model, error says as data what is wrong
)

// Record is an input as a module of this manifest reads it. in is of the latest
// version; what is no such record stays as it is. A charge holds of as many counters as
// there are; what it holds is that module's: see Held.
func (m *Manifest) Record(op abi.Op, in []byte) []byte {
	if op == abi.OpCharge {
		if c, err := abi.ParseChargeInput(in); err == nil && len(c.Held) != len(m.Counters) {
			c.Held = make([]int64, len(m.Counters)) // a vector that names none
			return c.Append(nil)
		}
	}
	if m.ABI != ABI10 {
		return in
	}
	switch op {
	case abi.OpDecide:
		if facts, err := abi.ParseAdmissionInput(in); err == nil {
			return facts.Append10(nil)
		}
	case abi.OpError:
		if failure, err := abi.ParseErrorInput(in); err == nil {
			return failure.Append10(nil)
		}
	}
	return in
}

// Probed is what the usual calls of the module depend on. Each of its routes is
// tried with a model's id for every parameter of the path.
func (m *Manifest) Probed() probe.Module {
	all := probe.Module{Kind: m.Kind, Protocol: m.Protocol, History: m.History, Free: m.Free, Framing: m.written(),
		Counters: len(m.Counters)}
	for i, r := range m.Routes {
		p, _ := ParsePattern(r.Path) // it was parsed before
		route := probe.Route{Op: r.Op, Route: abi.Route{Index: i}}
		for _, s := range p.segments {
			if s.param != "" {
				route.Params = append(route.Params, abi.Pair{Name: s.param, Value: "core-1.1"})
			}
		}
		all.Routes = append(all.Routes, route)
	}
	return all
}

// RuntimeGo is the manifest's word for a guest built by the Go toolchain.
const RuntimeGo = "go"

// Ref is how people name a module.
func (m *Manifest) Ref() string { return m.Name + "@" + m.Version }

// ParseManifest reads a manifest and checks it; the error lists all that is wrong.
func ParseManifest(section []byte) (Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(section))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("manifest: something follows the JSON object")
	}
	m.ConfigSchema = compactSchema(m.ConfigSchema)
	return m, m.validate()
}

func (m *Manifest) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("manifest: "+format, args...)) }
	if !PlainName(m.Name) {
		wrong("name is %q, want 1 to 64 of a-z 0-9 . _ - that begin with a letter or digit", m.Name)
	}
	if !PlainName(m.Version) {
		wrong("version is %q, want such as 1.0.0", m.Version)
	}
	switch m.Kind {
	case KindTranslator:
		own := m.Protocol == ProtocolChat || m.Protocol == ProtocolResponses
		switch {
		case m.HasRoutes() == own, !own && !IsProtocol(m.Protocol):
			wrong("protocol is %q, want chat or responses, or another name and routes", m.Protocol)
		case m.HasRoutes():
			errs = append(errs, m.checkRoutes())
			if m.ABI != ABI11 {
				wrong("routes need abi %s", ABI11)
			}
		}
	case KindBilling, KindAdmission, KindRewrite, KindFilter:
		if m.Protocol != "" {
			wrong("protocol is %q, but only a translator has one", m.Protocol)
		}
	default:
		wrong("kind is %q, want translator, billing, admission, rewrite or filter", m.Kind)
	}
	many := m.Kind == KindAdmission || m.Kind == KindRewrite || m.Kind == KindFilter
	if m.Place < 0 || m.Place > PlacesMax || m.Place > 1 && !many {
		wrong("place is %d, want 1 to %d of an admission, rewrite or filter module", m.Place, PlacesMax)
	}
	if newer := m.Kind == KindRewrite || m.Kind == KindFilter || m.Place > 0; newer && m.ABI != ABI11 {
		wrong("kind %s and place need abi %s", m.Kind, ABI11)
	}
	if m.ABI != ABI10 && m.ABI != ABI11 {
		wrong("abi is %q, this node speaks %s and %s", m.ABI, ABI10, ABI11)
	}
	said := len(m.Keys)+len(m.Headers)+len(m.Query)+len(m.Statuses) > 0 || m.AnyType || m.Array ||
		m.Framing+m.ContentType+m.KeepAlive != ""
	if !m.HasRoutes() && said || m.HasRoutes() && m.Kind != KindTranslator {
		wrong("keys, headers, query, framing, array, content_type, any_content_type, keepalive " +
			"and statuses are for translators with routes")
	}
	if m.History && m.Kind != KindTranslator {
		wrong("history is for translators")
	}
	if m.Free && m.Kind != KindBilling {
		wrong("free is for billing modules")
	}
	if m.ConfigSchema != nil {
		if _, err := configSchema(m.ConfigSchema); err != nil {
			wrong("%w", err)
		}
	}
	errs = append(errs, m.checkCounters())
	if m.MemoryMaxBytes < 0 || m.Ticks.Call < 0 || m.Ticks.PerKB < 0 {
		wrong("memory_max_bytes and ticks are zero or more")
	}
	return errors.Join(errs...)
}

// IsProtocol says whether a translator with routes may have a protocol of that name.
func IsProtocol(name string) bool {
	return PlainName(name) && name != ProtocolChat && name != ProtocolResponses && !among(notProtocols, name) && !IsPolicySlot(name)
}

// PlainName says whether a name is 1 to 64 of a-z 0-9 . _ - that begin with a letter or digit.
func PlainName(s string) bool {
	if s == "" || len(s) > 64 || strings.Trim(s[:1], "._-") == "" {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
