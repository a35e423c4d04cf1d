package cpu

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestPoolRunsEachOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 7} {
		p := newPool(threads)
		for _, n := range []int{0, 1, 2, 3, 100, 5000, tasksMax + 10} {
			counts := make([]atomic.Int32, n)
			p.run(n, taskFunc(func(worker, i int) {
				if worker < 0 || worker >= threads {
					panic(fmt.Sprintf("worker %d of %d", worker, threads))
				}
				counts[i].Add(1)
			}))
			for i := range counts {
				if c := counts[i].Load(); c != 1 {
					t.Fatalf("%d threads: iteration %d of %d ran %d times", threads, i, n, c)
				}
			}
		}
		p.close()
	}
}

// TestPoolParksAndWakes leaves the workers time to park between runs.
func TestPoolParksAndWakes(t *testing.T) {
	p := newPool(4)
	defer p.close()
	for i := range 30 {
		for deadline := time.Now().Add(10 * time.Second); i%3 == 0 && p.parked.Load() < 3; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of 3 workers parked", p.parked.Load())
			}
		}
		var sum atomic.Int64
		p.run(50, taskFunc(func(_, i int) { sum.Add(int64(i)) }))
		if sum.Load() != 49*50/2 {
			t.Fatalf("sum is %d", sum.Load())
		}
	}
}

// TestPoolHelpsTheLate: what is kept for a thread that does not come is done by
// the others. One thread hangs in an iteration until all others are done.
func TestPoolHelpsTheLate(t *testing.T) {
	const threads = 4
	p := newPool(threads)
	defer p.close()
	for n := 2; n < 40; n++ {
		var done atomic.Int32
		stuck := n / 2 % threads % n
		p.run(n, taskFunc(func(_, i int) {
			if i == stuck {
				for done.Load() < int32(n-1) {
					runtime.Gosched()
				}
			}
			done.Add(1)
		}))
		if int(done.Load()) != n {
			t.Fatalf("%d of %d iterations ran", done.Load(), n)
		}
	}
}

// TestPoolEpochWraps: claims stay right when the count of tasks overflows.
func TestPoolEpochWraps(t *testing.T) {
	p := newPoolAt(1<<32-50, 3)
	defer p.close()
	for i := range 100 {
		counts := make([]atomic.Int32, 1+i%9)
		p.run(len(counts), taskFunc(func(_, i int) { counts[i].Add(1) }))
		for k := range counts {
			if c := counts[k].Load(); c != 1 {
				t.Fatalf("task %d: iteration %d ran %d times", i, k, c)
			}
		}
	}
}

func TestPoolPanicReachesCaller(t *testing.T) {
	p := newPool(3)
	defer p.close()
	for range 20 {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "iteration 7") {
					t.Fatalf("recovered %v", r)
				}
			}()
			p.run(16, taskFunc(func(_, i int) {
				if i == 7 {
					panic("iteration 7")
				}
			}))
		}()
		ran := atomic.Int32{}
		p.run(9, taskFunc(func(int, int) { ran.Add(1) }))
		if ran.Load() != 9 {
			t.Fatalf("after a panic %d of 9 iterations ran", ran.Load())
		}
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		b, err := New(Options{Threads: 8})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		b.Close() // twice is allowed
	}
	// A goroutine counts for a moment after it has said that it is done.
	n := runtime.NumGoroutine()
	for tries := 0; n > before && tries < 20_000; tries++ {
		time.Sleep(time.Millisecond)
		n = runtime.NumGoroutine()
	}
	if n > before {
		t.Fatalf("%d goroutines, %d before", n, before)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Threads: -1}, {Threads: 1 << 20}, {Level: "mmx"}, {CacheDir: t.TempDir(), CacheKey: "../x"}} {
		if b, err := New(o); err == nil {
			b.Close()
			t.Errorf("%+v: no error", o)
		}
	}
	t.Setenv(levelEnv, "portable")
	if name := open(t, Options{}).Name(); name != "cpu/portable" {
		t.Errorf("the environment asks for portable, this is %s", name)
	}
	if name := open(t, Options{Level: Levels()[0]}).Name(); name != "cpu/"+Levels()[0] {
		t.Errorf("Options.Level asks for %s, this is %s", Levels()[0], name)
	}
}
