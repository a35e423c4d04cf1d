package main

import (
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGCPercentKeepsTheRoom(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, gcPercentMax},
		{heapRoom / 8, gcPercentMax}, // 800 %
		{heapRoom / 4, 400},
		{heapRoom / 2, 200},
		{heapRoom, 100},
		{2 * heapRoom, 50},
		{100 * heapRoom, gcPercentMin}, // 1 %
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("with %d bytes alive: %d %%, want %d", c.live, got, c.want)
		}
	}
}

// TestTheHeapIsBoundAfterEachCollection lets the heap grow and shrink, and reads the
// collector's setting as the runtime tells it.
func TestTheHeapIsBoundAfterEachCollection(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set, which goes before")
	}
	boundHeap()
	for _, size := range []int{4 * heapRoom, 0} {
		held := make([]byte, size)
		want := gcPercent(heapLive() + uint64(size))
		for tries := 0; gogc() < want*4/5 || gogc() > want*5/4; tries++ {
			if tries == 2000 {
				t.Fatalf("with %d bytes held the setting is %d %%, want about %d", size, gogc(), want)
			}
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		runtime.KeepAlive(held)
	}
}

// gogc is the collector's setting in percent.
func gogc() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
