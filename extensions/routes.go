package extensions

import (
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
