package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// heapRoom is how much the heap may grow between collections: what lives on
	// it is small beside the model, which is not on it, or accounts and keys,
	// which never become garbage.
	heapRoom = 32 << 20
	// gcPercentMax and gcPercentMin bound the room's share of what lives.
	gcPercentMax = 400
	gcPercentMin = 25
)

// gcPercent is the collector's setting for a heap of which live bytes were
// found alive.
func gcPercent(live uint64) int {
	return int(min(max(heapRoom*100/max(live, 1), gcPercentMin), gcPercentMax))
}

// boundHeap keeps the room between collections the same however much lives on
// the heap, from now on. An operator's GOGC goes before.
func boundHeap() {
	if os.Getenv("GOGC") != "" {
		return
	}
	binding.Do(func() {
		b := &heapBound{percent: 100}
		afterCollection(b)
		runtime.GC()
	})
}

var binding sync.Once // a process has one heap

// heapBound is the setting in force. Used by one cleanup at a time.
type heapBound struct{ percent int }

// afterCollection adapts the setting after the next collection, and so on: a
// cleanup of an object that nothing holds runs once a collection has ended.
func afterCollection(b *heapBound) {
	runtime.AddCleanup(new(collected), func(b *heapBound) {
		b.adapt(heapLive())
		afterCollection(b)
	}, b)
}

// collected has a pointer, so that it shares no block with others that live.
type collected struct{ _ *collected }

// adapt changes the setting when it is off by more than an eighth: a change
// stops the program for some microseconds.
func (b *heapBound) adapt(live uint64) {
	if p := gcPercent(live); p < b.percent*7/8 || p > b.percent*9/8 {
		b.percent = p
		debug.SetGCPercent(p)
	}
}

// heapLive is how many bytes the last collection found alive.
func heapLive() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
