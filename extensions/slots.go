package extensions

import (
	"cmp"
	"corenode/extensions/guest"
	"maps"
	"runtime"
	"slices"
)

// Slot is a place where exactly one generation is active, with maybe a canary
// and a shadow beside it.
type Slot string

// The slots that are always there. A translator's is its protocol, a policy's its
// kind. A translator of any other protocol has a slot of that name, which is made
// when it is first heard of and has no native build.
const (
	SlotChat      Slot = guest.ProtocolChat
	SlotResponses Slot = guest.ProtocolResponses
	SlotBilling   Slot = guest.KindBilling
	SlotAdmission Slot = guest.KindAdmission
)

// Slots are those that are always there, in the order that lists show.
var Slots = [...]Slot{SlotChat, SlotResponses, SlotBilling, SlotAdmission}

// index is the slot's place in Slots, -1 for one of another protocol.
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
	return Slot(m.Kind)
}

// slot finds a slot, and makes that of a protocol that is new.
func (b *builder) slot(s Slot) *slot {
	if i := s.index(); i >= 0 {
		return b.slots[i]
	}
	if sl := (*b.foreign.Load())[s]; sl != nil {
		return sl
	}
	if !guest.IsProtocol(string(s)) {
		panic("extensions: slot " + string(s)) // a mistake of the program
	}
	b.growing.Lock()
	defer b.growing.Unlock()
	all := maps.Clone(*b.foreign.Load())
	if all[s] == nil {
		all[s] = b.newSlot(s)
		b.foreign.Store(&all)
	}
	return all[s]
}

func (b *builder) newSlot(s Slot) *slot {
	sl := &slot{name: s}
	sl.throttle = newThrottle(newCPUShare(b.options.CPUShare, runtime.GOMAXPROCS(0)), b.sayOver(sl))
	sl.now.Store(&assignment{})
	return sl
}

// foreignSlots are those of protocols that modules brought, by name.
func (b *builder) foreignSlots() (all []*slot) {
	named := *b.foreign.Load()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name])
	}
	return all
}

// allSlots are all there are, in the order that lists show.
func (b *builder) allSlots() []*slot {
	return append(b.slots[:len(b.slots):len(b.slots)], b.foreignSlots()...)
}

// Slots are the names of all slots there are, in the order that lists show.
func (h *Host) Slots() (names []Slot) {
	for _, sl := range h.allSlots() {
		names = append(names, sl.name)
	}
	return names
}
