package extensions

import (
	"fmt"
	"strings"

	"corenode/extensions/guest"
)

// module is what the host knows of one module file, loaded or not.
type module struct {
	digest   string
	shipped  bool
	wasm     func() ([]byte, error) // the file of a shipped module; nil = it is in Dir
	config   []byte                 // the operator's, that it is loaded with
	volatile []byte                 // the file, when there is no Dir to keep it in

	// Changed with Host.building and Host.mu held; what stands above never changes.
	signature []byte

	// Guarded by Host.mu.
	manifest   guest.Manifest
	known      bool        // manifest was read
	generation *generation // nil when it is not in memory
	loading    bool
	failed     string  // why it does not serve, if it should
	last       *counts // of the generation that failed, nil before
	denied     error   // why the operator's configuration keeps it out, nil if it does not
	removed    bool    // kept on disk for replays only
	size       int
}

// wanted names a module in the state, as wantedOf does one in memory.
func (m *module) wanted() string {
	switch {
	case m.wasm != nil:
		return wantShipped
	case m.shipped:
		return wantNative
	}
	return m.digest
}

// registry is what the host knows of all module files, by digest. It is guarded
// by Host.mu.
type registry map[string]*module

// find resolves a reference: a digest, at least six digits that begin its hex,
// or name@version, which prefers what ships with this program to copies that
// earlier ones left.
func (r registry) find(ref string) (*module, error) {
	if m := r[ref]; m != nil && !m.removed {
		return m, nil
	}
	hex := strings.TrimPrefix(ref, digestPrefix)
	var found *module
	ambiguous := false
	for _, m := range r { // in any order
		byHex := len(hex) >= 6 && strings.HasPrefix(m.digest, digestPrefix+hex)
		if m.removed || !byHex && !(m.known && m.manifest.Ref() == ref) {
			continue
		}
		switch {
		case found == nil || !byHex && m.shipped && !found.shipped:
			found, ambiguous = m, false
		case !byHex && found.shipped && !m.shipped:
		default:
			ambiguous = true
		}
	}
	if ambiguous {
		return nil, fmt.Errorf("%q: %w", ref, ErrAmbiguous)
	}
	if found == nil {
		return nil, fmt.Errorf("%q: %w", ref, ErrUnknownModule)
	}
	return found, nil
}

// serving acquires the billing generation with that digest if it is in memory.
func (r registry) serving(digest string) *generation {
	m := r[digest]
	if m == nil || m.generation == nil || slotOf(&m.generation.manifest) != SlotBilling || !m.generation.acquire() {
		return nil
	}
	return m.generation
}

// isUsable says whether what a name in the state stands for serves, or will when
// the start is over.
func (r registry) isUsable(name string) bool {
	if !strings.HasPrefix(name, digestPrefix) {
		return name != ""
	}
	m := r[name]
	return m != nil && m.denied == nil && m.failed == "" && !m.removed
}

// titleOf is a module in logs, by its name in the state.
func (r registry) titleOf(name string) string {
	if m := r[name]; m != nil && m.manifest.Name != "" {
		return m.manifest.Ref() + " " + shortDigest(name)
	}
	return shortDigest(name)
}
