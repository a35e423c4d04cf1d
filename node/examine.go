package main

import (
	"sync"
	"time"

	"corenode/node/cli"
	"corenode/node/doctor"
)

// examineEvery is how long what was found is shown again: some of it takes syncs of the disk.
const examineEvery = 5 * time.Second

// examination is the last look of the node at itself and its machine.
type examination struct {
	mu    sync.Mutex // held while it looks
	at    time.Time
	found []doctor.Finding
}

// examine makes the checks of corenode doctor, and says when they were made.
func (n *node) examine() ([]doctor.Finding, time.Time) {
	e := &n.examination
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) > examineEvery {
		cfg := n.cfg
		if n.reloads != nil {
			cfg, _ = n.reloads.inForce()
		}
		facts := cli.Measure(cfg, physicalMemory())
		e.at, e.found = facts.Now, doctor.Examine(facts)
	}
	return e.found, e.at
}
