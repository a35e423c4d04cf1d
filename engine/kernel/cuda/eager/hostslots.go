package eager

import "fmt"

// Slots in host memory are for states that nothing is computed on: each is copied there and back, beside the host and in
// the order of all other work, so that nobody waits for it but what comes behind it on the stream.

// takeHost takes the memory of the slots that are the host's, page-locked and all at once: pages of a machine
// that is full are not there when a sequence ends.
func (c *cache) takeHost() (err error) {
	bytes := 4 * int64(c.cfg.HostSlots) * slotFloats(c.cfg)
	if bytes == 0 {
		return nil
	}
	if c.host, err = c.b.device.AllocHost(int(bytes)); err != nil {
		return fmt.Errorf("new cache: %d bytes of page-locked memory for states: %w", bytes, c.b.note(err))
	}
	return nil
}

// giveHost gives it back.
func (c *cache) giveHost() {
	if c.host != nil {
		c.b.Wait() // copies may be under way
		c.b.Must(c.b.device.FreeHost(c.host))
		c.host = nil
	}
}

// onHost says whether a slot is one of the host's.
func (c *cache) onHost(i int32) bool { return int(i) >= c.cfg.StateSlots }

// hostSlot is the memory of such a slot.
func (c *cache) hostSlot(i int32) []byte {
	n := int(i) - c.cfg.StateSlots
	if n < 0 || n >= c.cfg.HostSlots {
		panic(fmt.Sprintf("slot %d behind %d of the device and %d of the host", i, c.cfg.StateSlots, c.cfg.HostSlots))
	}
	bytes := 4 * int(slotFloats(c.cfg))
	return c.host[n*bytes:][:bytes:bytes]
}
