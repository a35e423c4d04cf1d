package extensions

import (
	"cmp"
	"slices"

	"corenode/extensions/guest"
)

// Slot is a place where exactly one generation is active, with maybe a canary
// and a shadow beside it.
type Slot string

// The slots that are always there. A translator's is its protocol, a policy's its
// kind, and its place where that is not the first: "filter.2". A translator of any other protocol has a slot of that name, which is made
// when it is first heard of and has no native build.
const (
	SlotChat      Slot = guest.ProtocolChat
	SlotResponses Slot = guest.ProtocolResponses
	SlotBilling   Slot = guest.KindBilling
	SlotAdmission Slot = guest.KindAdmission
	SlotRewrite   Slot = guest.KindRewrite
	SlotFilter    Slot = guest.KindFilter
)

// Slots are those that are always there, in the order that lists show.
var Slots = [...]Slot{SlotChat, SlotResponses, SlotBilling, SlotAdmission, SlotRewrite, SlotFilter}

// index is the slot's place in Slots, -1 for one of another protocol.
func (s Slot) index() int { return slices.Index(Slots[:], s) }

// isRouted says whether requests come to a slot by paths of its modules.
func (s Slot) isRouted() bool { return s.index() < 0 && !guest.IsPolicySlot(string(s)) }

// compare orders slots as lists show them: those that are always there, then by name.
func (s Slot) compare(t Slot) int {
	i, j := uint(s.index()), uint(t.index()) // -1 is the largest
	return cmp.Or(cmp.Compare(i, j), cmp.Compare(s, t))
}

// slotOf is where modules of a manifest serve.
func slotOf(m *guest.Manifest) Slot {
	if m.Kind == guest.KindTranslator {
		return Slot(m.Protocol)
	}
	return Slot(guest.PolicySlot(m.Kind, m.Place))
}
