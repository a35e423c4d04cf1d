package meter

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/extensions/meter/wasmtest"
)

// TestCollectorDoesNotWaitForGuests: a collection stops the world, which waits
// for every goroutine to enter Go. Four guests that spin do so at safepoints.
// Without safepoints the collection would end only after all of their calls.
func TestCollectorDoesNotWaitForGuests(t *testing.T) {
	const spinners = 4
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // on one, guests and collector take turns
	const told = 4                                                              // where in its memory a guest is told to end
	var m wasmtest.Module
	m.Memory(1, 1)
	m.Func("spin", nil, nil, nil, wasmtest.Asm().Loop(wasmtest.Void).I32(0).I32(0).Mem(wasmtest.I32Load, 0).
		I32(1).Op(wasmtest.I32Add).Mem(wasmtest.I32Store, 0).I32(told).Mem(wasmtest.I32Load, 0).Op(wasmtest.I32Eqz).BrIf(0).End())
	rt := newRuntime(t)
	var running atomic.Int32
	var all sync.WaitGroup
	var spinning []*guest
	for range spinners {
		g := startMetered(t, rt, m.Bytes(), Options{})
		g.arm(8_000_000_000, Options{}) // most of a minute: a collection that waits for them takes as long, and they fail
		spinning = append(spinning, g)
		all.Go(func() {
			running.Add(1)
			if _, err := g.call("spin"); err != nil {
				t.Errorf("a guest ended before the collection did: %v, cause %d", err, g.get(GlobalCause))
			}
		})
	}
	for running.Load() < spinners {
		runtime.Gosched()
	}
	began := time.Now()
	runtime.GC()
	took := time.Since(began)
	for _, g := range spinning {
		g.mod.Memory().WriteUint32Le(told, 1)
	}
	all.Wait()
	t.Logf("the collection took %v, the guests %v", took, time.Since(began))
}

// TestSafepointsAreTaken sees them by their effect on the counters: every slice
// but the first is taken when a tick finds none left, and pays for that tick.
func TestSafepointsAreTaken(t *testing.T) {
	o := Options{SafepointTicks: 100}
	var m wasmtest.Module
	m.Func("f", nil, nil, []byte{wasmtest.I32}, countdown(wasmtest.Asm(), 0, 1050, nil))
	g := startMetered(t, newRuntime(t), m.Bytes(), o)
	g.arm(10_000, o)
	if _, err := g.call("f"); err != nil {
		t.Fatal(err)
	}
	if left, budget := g.get(GlobalLeft), g.get(GlobalBudget); left != 60 || budget != 10_000-1050-60 {
		t.Errorf("left %d, budget %d", left, budget)
	}
}
