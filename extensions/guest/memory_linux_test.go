package guest

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// addressSpace is what the process has reserved, in bytes.
func addressSpace(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// largeManifest asks for the most memory that there is.
const largeManifest = `{"name":"large","kind":"admission","version":"1","abi":"1.0","memory_max_bytes":536870912}`

// noRoom is the error of an instance that is made while half of its memory does not fit the address space.
func noRoom(t *testing.T, m *Module) error {
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &had); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: uint64(addressSpace(t) + memoryMax/2), Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	i, err := m.Fresh()
	if again := unix.Setrlimit(unix.RLIMIT_AS, &had); again != nil {
		t.Fatal(again)
	}
	if err == nil {
		i.Close()
	}
	return err
}

// TestNoRoom: where the address space has no room for an instance, a call without one is refused until there is.
// That is no fault of the module.
func TestNoRoom(t *testing.T) {
	m := compiled(t, handmade(largeManifest, wasmtest.Asm().Op(wasmtest.Unreachable)))
	defer m.Close()
	lack := noRoom(t, m)
	if refused, ok := errors.AsType[*LoadError](lack); !ok || refused.Stage != "instantiate" || !errors.Is(lack, errNoRoom) {
		t.Fatalf("%v", lack)
	}
	first, err := m.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	var lacking atomic.Bool
	lacking.Store(true)
	p := newPool(PoolOptions{InstancesMax: 2, Settle: func(_, _ time.Duration) {}}, first, func() (*Instance, error) {
		if lacking.Load() {
			return nil, lack
		}
		return m.Fresh()
	})
	defer p.Close()
	call := func(want Cause) {
		t.Helper()
		f := p.Call(abi.OpDecide, "a", nil, 0, func([]byte) *Fault { return nil })
		if f == nil || f.Cause != want {
			t.Errorf("%v, want %v", f, want)
		}
	}
	call(CauseTrap) // the first instance is gone after it
	call(CauseOverloaded)
	call(CauseOverloaded)
	lacking.Store(false)
	call(CauseTrap)
}

// TestFailedStartsAreFreed: an instance that cannot be made keeps none of its address space.
func TestFailedStartsAreFreed(t *testing.T) {
	outside := &wasmtest.Module{}
	outside.Memory(1, -1)
	outside.Data(pageBytes, []byte("x"))
	outside.Custom(ManifestSection, []byte(largeManifest))
	f, err := Read(outside.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Compile(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const starts = 8
	before := addressSpace(t)
	for range starts {
		if _, err := m.Fresh(); err == nil || !strings.Contains(err.Error(), "data") {
			t.Fatal(err)
		}
	}
	if more := addressSpace(t) - before; more > starts*memoryMax/2 {
		t.Errorf("%d failed starts left %d MiB of address space reserved", starts, more>>20)
	}
	own := m.code
	m.code = &code{} // without an engine: what panics is an error too, and leaves nothing
	if _, err := m.Fresh(); err == nil || !strings.Contains(err.Error(), "the engine stopped") {
		t.Errorf("%v", err)
	}
	m.code = own
}
