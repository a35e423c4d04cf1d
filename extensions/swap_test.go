package extensions

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// load drives requests with a stream each from several accounts and checks
// that every one is answered by one generation throughout.
type load struct {
	stop   atomic.Bool
	calls  atomic.Int64
	failed atomic.Int64
	wait   sync.WaitGroup
}

func startLoad(t testing.TB, h *Host, workers int) *load {
	l := &load{}
	for n := range workers {
		l.wait.Go(func() {
			for i := 0; !l.stop.Load(); i++ {
				if err := oneStream(h, fmt.Sprintf("account-%d-%d", n, i%7)); err != nil {
					l.failed.Add(1)
					t.Error(err)
				}
				l.calls.Add(1)
			}
		})
	}
	return l
}

func oneStream(h *Host, account string) error {
	tr := h.Translate(SlotChat, account, "", abi.Facts{ID: "x"})
	defer tr.Close()
	body, err := tr.Request([]byte("{}"))
	if err != nil {
		return err
	}
	version := strings.TrimSuffix(strings.TrimPrefix(string(body), `{"by":"`), `"}`)
	for _, e := range answerEvents()[:5] {
		out, err := tr.Events(nil, []abi.Event{e})
		if err != nil || string(out) != "data: "+version+"\n\n" {
			return fmt.Errorf("a stream of %s got %q, %v", version, out, err)
		}
	}
	return nil
}

func (l *load) end(t testing.TB) int64 {
	l.stop.Store(true)
	l.wait.Wait()
	if l.calls.Load() == 0 {
		t.Error("no stream ran")
	}
	return l.calls.Load()
}

// TestSwapUnderLoad activates, rolls back, tries and removes modules while
// streams run on few instances: none fails or changes its generation, and
// every generation that fell out of use is closed.
func TestSwapUnderLoad(t *testing.T) {
	h, _ := openTest(t, Options{PoolMax: 2})
	l := startLoad(t, h, 6)
	var seen []*generation
	for n := range 15 {
		i := activate(t, h, chatGuest(t, fmt.Sprint(n)))
		seen = append(seen, h.slot(SlotChat).now.Load().active)
		var err error
		switch n % 5 {
		case 1:
			_, err = h.Rollback(SlotChat)
		case 2:
			_, err = h.Shadow(mustLoad(t, h, chatGuest(t, fmt.Sprint("shadow", n))), 50)
		case 3:
			if _, err := h.Shadow(fmt.Sprint("test@shadow", n-1), 0); err != nil {
				t.Error(err)
			}
			_, err = h.Canary(mustLoad(t, h, chatGuest(t, fmt.Sprint("canary", n))), 50)
		case 4:
			err = h.Remove(fmt.Sprintf("test@%d", n-1))
		}
		if err != nil {
			t.Errorf("step %d, %+v: %v", n, i, err)
		}
		before := l.calls.Load()
		eventually(func() bool { return l.calls.Load() > before })
	}
	l.end(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for n, g := range seen {
		if u := g.pool.Use(); u.Instances != 0 || u.Busy != 0 {
			t.Errorf("generation %d is not closed: %+v", n, u)
		}
	}
}

// TestPoolIsBounded: more callers than instances wait, and none sees another's memory.
func TestPoolIsBounded(t *testing.T) {
	h, _ := openTest(t, Options{PoolMax: 2})
	info := activate(t, h, chatGuest(t, "1"))
	l := startLoad(t, h, 16)
	eventually(func() bool { return l.calls.Load() > 200 })
	l.end(t)
	if info, _ = h.info(info.Digest); info.Instances < 1 || info.Instances > 2 || info.InstancesBusy != 0 || info.Faults != nil {
		t.Errorf("%+v", info)
	}
}

// TestOverloaded: an instance that stays busy for too long is an Overloaded
// error, for which the module is not to blame.
func TestOverloaded(t *testing.T) {
	h, _ := openTest(t, Options{PoolMax: 1})
	info := activate(t, h, chatGuest(t, "1"))
	g := h.slot(SlotChat).now.Load().active
	taken, release := make(chan bool), make(chan bool)
	var busy sync.WaitGroup
	busy.Go(func() {
		f := g.pool.Call(abi.OpError, "busy", nil, 0, func([]byte) *guest.Fault {
			taken <- true
			<-release
			return nil
		})
		if f != nil {
			t.Error(f)
		}
	})
	<-taken
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	if _, err := tr.Request(nil); abi.KindOf(err) != abi.Overloaded {
		t.Errorf("%v", err)
	}
	close(release)
	busy.Wait()
	if _, err := tr.Request(nil); err != nil {
		t.Error(err)
	}
	if info, _ = h.info(info.Digest); info.Faults["overloaded"] != 1 || info.State != StateActive {
		t.Errorf("%+v", info)
	}
}

// TestGrownInstanceIsReplaced: memory that one large call took does not stay.
func TestGrownInstanceIsReplaced(t *testing.T) {
	h, _ := openTest(t, Options{PoolMax: 1})
	g := newGuest(SlotChat, "1")
	g.call = wasmtest.Asm().I32(5*guestPages).Imm(0x40, 0).Op(wasmtest.Drop).I64(g.place(okFrame([]byte("{}"))))
	info := activate(t, h, g.bytes(t))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	for range 3 {
		tr.Error(nil, &abi.Error{}, 500)
	}
	eventually(func() bool { info, _ = h.info(info.Digest); return info.Instances == 1 })
	if info.MemoryBytes > 4*guestPages*pageBytes || info.Calls != 3 || info.Faults != nil {
		t.Errorf("%+v", info)
	}
}

// TestCollectorRuns: while four guests spin, until their ticks run out, the
// garbage collector of the process still completes.
func TestCollectorRuns(t *testing.T) {
	// A processor each, and some for the collector: what is tested is whether
	// guests can be stopped, not who gets the processor.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(6))
	h, _ := openTest(t, Options{PoolMax: 4})
	g := newGuest(SlotChat, "spin")
	g.manifest.Ticks.Call = 200_000_000
	g.call = wasmtest.Asm().Loop(wasmtest.Void).Br(0).End().I64(0)
	activate(t, h, g.bytes(t))
	spinning := h.slot(SlotChat).now.Load().active
	for range 10 { // a try says nothing in which this goroutine stood still until the guests had ended
		var w sync.WaitGroup
		var done atomic.Int64
		for range 4 {
			w.Go(func() {
				_, f := spinning.do(abi.OpError, caller{account: "a"}, nil, 0, nil)
				if f == nil || f.Cause != guest.CauseTicks {
					t.Errorf("a spinning guest ended with %v", f)
				}
				done.Add(1)
			})
		}
		eventually(func() bool { return spinning.pool.Use().Busy == 4 || done.Load() > 0 })
		began := time.Now()
		runtime.GC()
		took, ended := time.Since(began), done.Load()
		if w.Wait(); ended < 4 {
			t.Logf("the collection took %v, the guests %v", took, time.Since(began))
			return
		}
	}
	t.Error("each of ten collections took until all guests had ended")
}
