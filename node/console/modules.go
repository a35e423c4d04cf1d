package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

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
	// Rollback says that there is a previous module.
	Rollback bool
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
		s.Rollback = s.Rollback || m.State == extensions.StatePrevious
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
	if refused := (*admin.Error)(nil); err == nil {
		p.Shadow = &report
	} else if !errors.As(err, &refused) {
		return nil, err
	}
	return p, nil // a module that is no shadow has no report
}

func (c *Console) upstreams(_ *http.Request, cl *admin.Client) (any, error) { return cl.Upstreams() }
