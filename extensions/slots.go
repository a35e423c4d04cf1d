package extensions

import "corenode/extensions/guest"

// Slot is a place where exactly one generation is active, with maybe a canary
// and a shadow beside it.
type Slot string

// The slots. A translator's is its protocol, a policy's its kind.
const (
	SlotChat      Slot = guest.ProtocolChat
	SlotResponses Slot = guest.ProtocolResponses
	SlotBilling   Slot = guest.KindBilling
	SlotAdmission Slot = guest.KindAdmission
)

// Slots are all of them, in the order that lists show.
var Slots = [...]Slot{SlotChat, SlotResponses, SlotBilling, SlotAdmission}

// index is the slot's place in Slots, -1 for none.
func (s Slot) index() int {
	switch s {
	case SlotChat:
		return 0
	case SlotResponses:
		return 1
	case SlotBilling:
		return 2
	case SlotAdmission:
		return 3
	}
	return -1
}

// slotOf is where modules of a manifest serve.
func slotOf(m *guest.Manifest) Slot {
	if m.Kind == guest.KindTranslator {
		return Slot(m.Protocol)
	}
	return Slot(m.Kind)
}
