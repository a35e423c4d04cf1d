package extensions

import (
	"bytes"
	"fmt"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Routed is a path that a module answers.
type Routed struct {
	Slot     Slot
	Manifest *guest.Manifest // which says all of its routes
	Index    int             // of the route
	Params   []abi.Pair      // of the path
}

// routing is which paths modules answer, by the first segment. It is immutable.
// Invariant: no path is that of two slots.
type routing map[string][]routed

type routed struct {
	slot     Slot
	manifest *guest.Manifest
	index    int
	pattern  guest.Pattern
}

// patternsOf are the patterns of a manifest's routes, which were parsed before.
func patternsOf(m *guest.Manifest) []guest.Pattern {
	all := make([]guest.Pattern, len(m.Routes))
	for i := range all {
		all[i], _ = guest.ParsePattern(m.Routes[i].Path)
	}
	return all
}

// add adds the routes of a manifest, all or, when one overlaps with another
// slot's, none: the error says which.
func (r routing) add(name Slot, m *guest.Manifest) error {
	patterns := patternsOf(m)
	for i, p := range patterns {
		for _, other := range r[p.First()] {
			if other.pattern.Overlaps(p) {
				return fmt.Errorf("path %q is that of %q, which %s has: %w", m.Routes[i].Path,
					other.manifest.Routes[other.index].Path, other.manifest.Ref(), ErrPath)
			}
		}
	}
	for i, p := range patterns {
		r[p.First()] = append(r[p.First()], routed{name, m, i, p})
	}
	return nil
}

// Route finds the route of a path as it was sent, without its query. It is that of
// the module that serves, or, where that is not in memory, of the one that should.
func (h *Host) Route(path []byte) (Routed, bool) {
	if len(path) == 0 {
		return Routed{}, false
	}
	first, _, _ := bytes.Cut(path[1:], []byte{'/'})
	var found Routed
	var best *routed
	all := (*h.routing.Load())[string(first)]
	for i := range all {
		r := &all[i]
		if best != nil && !r.pattern.Before(best.pattern) {
			continue
		}
		if params, ok := r.pattern.Match(path); ok {
			best, found = r, Routed{r.slot, r.manifest, r.index, params}
		}
	}
	return found, best != nil
}

// Routers are the modules that answer paths, each once and without a route.
func (h *Host) Routers() (all []Routed) {
	seen := map[Slot]bool{}
	for _, beside := range *h.routing.Load() {
		for i := range beside {
			if r := &beside[i]; !seen[r.slot] {
				seen[r.slot] = true
				all = append(all, Routed{Slot: r.slot, Manifest: r.manifest})
			}
		}
	}
	return all
}

// Owner is the module whose all paths are that begin with the first segment of a path, without a
// route: it says how clients of that path read an error. Nobody's is /v1, where the contract is.
func (h *Host) Owner(path []byte) (Routed, bool) {
	path, absolute := bytes.CutPrefix(path, []byte{'/'})
	first, _, _ := bytes.Cut(path, []byte{'/'})
	all := (*h.routing.Load())[string(first)]
	if !absolute || string(first) == "v1" || len(all) == 0 {
		return Routed{}, false
	}
	for i := range all {
		if all[i].slot != all[0].slot {
			return Routed{}, false
		}
	}
	return Routed{Slot: all[0].slot, Manifest: all[0].manifest}, true
}
