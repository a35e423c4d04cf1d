package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"corenode/extensions"
	"corenode/extensions/compare"
	"corenode/node/admin"
)

// modulesPage lists all modules by slot.
type modulesPage struct {
	Slots []moduleSlot
}

type moduleSlot struct {
	Name    string
	Modules []extensions.Info
}

// Undo says what a rollback of the slot does; nothing where it has nothing to undo.
func (s moduleSlot) Undo() string {
	in := func(state string) bool {
		return slices.ContainsFunc(s.Modules, func(m extensions.Info) bool { return m.State == state })
	}
	// What a module of somebody's replaced is there still: a native build is one, and is not shown as the previous.
	theirs := slices.ContainsFunc(s.Modules, func(m extensions.Info) bool { return m.State == extensions.StateActive && !m.Shipped })
	switch {
	case in(extensions.StateCanary):
		return "The canary of " + s.Name + " ends."
	case in(extensions.StateMissing):
		return "The node does without the module of " + s.Name + " that is missing."
	case in(extensions.StatePrevious), theirs && in(extensions.StateBuiltin):
		return "What served " + s.Name + " before serves it again."
	case in(extensions.StateActive) && !in(extensions.StateBuiltin):
		return "No module serves " + s.Name + " any more."
	}
	return ""
}

// Serves tells the states of a slot apart between which a rollback goes.
func (s moduleSlot) Serves() string {
	var all []string
	for _, m := range s.Modules {
		switch m.State {
		case extensions.StateActive, extensions.StateCanary, extensions.StatePrevious, extensions.StateMissing:
			all = append(all, m.State+" "+m.Digest)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// slotOf is one of the slots of modules.
func slotOf(name string, modules []extensions.Info) moduleSlot {
	s := moduleSlot{Name: name}
	for _, m := range modules {
		if string(m.Slot) == name {
			s.Modules = append(s.Modules, m)
		}
	}
	return s
}

func (c *Console) modules(_ *http.Request, cl *admin.Client) (any, error) {
	all, err := cl.Modules()
	var p modulesPage
	for _, m := range all {
		slot := string(m.Slot)
		if len(p.Slots) == 0 || p.Slots[len(p.Slots)-1].Name != slot {
			p.Slots = append(p.Slots, moduleSlot{Name: slot})
		}
		s := &p.Slots[len(p.Slots)-1]
		s.Modules = append(s.Modules, m)
	}
	return p, err
}

// modulePage is one module, with what its shadow found.
type modulePage struct {
	Module extensions.Info
	Schema string // of its configuration, indented
	Shadow *compare.Report
}

func (c *Console) module(r *http.Request, cl *admin.Client) (any, error) {
	m, err := cl.Module(r.PathValue("module"))
	if err != nil {
		return nil, err
	}
	p := modulePage{Module: m}
	var b bytes.Buffer
	if json.Indent(&b, m.ConfigSchema, "", "  ") == nil {
		p.Schema = b.String()
	}
	report, err := cl.ShadowReport(m.Digest)
	if err == nil {
		p.Shadow = &report
	} else if _, refused := errors.AsType[*admin.Error](err); !refused {
		return nil, err
	}
	return p, nil // a module that is no shadow has no report
}

func (c *Console) upstreams(_ *http.Request, cl *admin.Client) (any, error) { return cl.Upstreams() }
