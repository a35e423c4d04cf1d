//go:build cuda && linux

package libcuda

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest"
)

// standIn is the library of testdata, built for this test, and its device.
type standIn struct {
	path   string
	device cuda.Driver
	handle uintptr
}

func openStandIn(t *testing.T) *standIn {
	t.Helper()
	path := build(t, "testdata/standin.c")
	d, err := Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{path, d, handle}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// build makes a library of a C file.
func build(t *testing.T, source string, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs a C compiler, cc")
	}
	path := filepath.Join(t.TempDir(), "libcuda.so")
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wno-array-parameter", "-o", path, source}, flags...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// call calls a function of the stand-in that is none of the driver's.
func (s *standIn) call(t *testing.T, name string, args ...uintptr) uintptr {
	t.Helper()
	f, err := purego.Dlsym(s.handle, name)
	if err != nil {
		t.Fatal(err)
	}
	r, _, _ := purego.SyscallN(f, args...)
	return r
}

// notes is what the stand-in could not accept.
func (s *standIn) notes() string {
	var said func() string
	purego.RegisterLibFunc(&said, s.handle, "standin_notes")
	return said()
}

func (s *standIn) noComplaints(t *testing.T) {
	t.Helper()
	if n := s.notes(); n != "" {
		t.Errorf("the driver was called wrongly:\n%s", n)
	}
}

func TestStreamsEventsAndGraphsWorkThroughTheDriver(t *testing.T) {
	s := openStandIn(t)
	if n, c := s.device.Name(), s.device.Compute(); n != "stand-in" || c != 86 {
		t.Errorf("the device is %q of %d, want stand-in of 86", n, c)
	}
	cudatest.Streams(t, s.device)
	s.noComplaints(t)
}

// TestCallsMoveBetweenThreads makes calls from goroutines on threads of their own, one after
// the other: each finds the context current.
func TestCallsMoveBetweenThreads(t *testing.T) {
	s := openStandIn(t)
	for range 4 {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			p, err := s.device.Alloc(64)
			if err == nil {
				err = s.device.Free(p)
			}
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	s.noComplaints(t)
}

func TestTensorMapsAreDescribedAsTheDriverWants(t *testing.T) {
	s := openStandIn(t)
	m, err := s.device.TensorMap(cuda.Tensor{Elem: cuda.BF16, At: 0x1000, Dims: []int{96, 7, 5}, Strides: []int64{192, 1536},
		Box: []int{64, 4, 1}, Swizzle: 128})
	if err != nil {
		t.Fatal(err)
	}
	want := []uint64{9, 3, 0x1000, 3, 96, 7, 5, 192, 1536, 0, 64, 4, 1}
	for i, w := range want {
		if got := binary.LittleEndian.Uint64(m[8*i:]); got != w {
			t.Errorf("word %d of the map is %d, want %d", i, got, w)
		}
	}
	if _, err := s.device.TensorMap(cuda.Tensor{Elem: cuda.F16, Dims: []int{8}, Box: []int{8}, Swizzle: 48}); err == nil {
		t.Error("a swizzle of 48 bytes was accepted")
	}
	s.noComplaints(t)
}

func TestLaunchesThatAreWrongAreRefused(t *testing.T) {
	s := openStandIn(t)
	m, err := s.device.Load([]byte("grow"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function("grow")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AllowShared(65536); err != nil {
		t.Error(err)
	}
	stream, err := s.device.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	var e *cuda.Error
	if err := stream.Launch(f, cuda.Launch{Params: make([]byte, 4)}); !errors.As(err, &e) || e.Code != cuda.LaunchError || e.Sticky {
		t.Errorf("a launch with 4 bytes of parameters: %v", err)
	}
	if _, err := s.device.Load([]byte("frobnicate")); !errors.As(err, &e) || !strings.Contains(e.Msg, "no frobnicate here") {
		t.Errorf("what the compiler said is not in the error: %v", err)
	}
	s.noComplaints(t)
}

// TestErrorsOfTheDriverHaveTheirKind lets the next call fail with each number.
func TestErrorsOfTheDriverHaveTheirKind(t *testing.T) {
	s := openStandIn(t)
	for code, want := range map[uintptr]cuda.Code{
		1: cuda.Invalid, 2: cuda.OutOfMemory, 209: cuda.BadImage, 500: cuda.NotFound, 701: cuda.LaunchError,
	} {
		s.call(t, "standin_fail", code)
		var e *cuda.Error
		if _, err := s.device.Alloc(64); !errors.As(err, &e) || e.Code != want || e.Sticky {
			t.Errorf("error %d became %v, want code %d that loses nothing", code, err, want)
		}
	}
	if p, err := s.device.Alloc(64); err != nil {
		t.Errorf("after them: %v", err)
	} else if err := s.device.Free(p); err != nil {
		t.Error(err)
	}
}

func TestAnEventThatHasNotCompletedIsNoError(t *testing.T) {
	s := openStandIn(t)
	stream, err1 := s.device.NewStream()
	e, err2 := s.device.NewEvent()
	if err := errors.Join(err1, err2, stream.Record(e)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		s.call(t, "standin_fail", []uintptr{uintptr(notReady), 0}[i])
		if done, err := e.Done(); done != want || err != nil {
			t.Errorf("done: %v, %v, want %v", done, err, want)
		}
	}
	s.noComplaints(t)
}

// TestStepsThatAreWaitedForByEventsKeepNoMemory: a step loop never waits for its stream itself.
func TestStepsThatAreWaitedForByEventsKeepNoMemory(t *testing.T) {
	s := openStandIn(t)
	at, err1 := s.device.Alloc(64)
	opened, err2 := s.device.NewStream()
	e, err3 := s.device.NewEvent()
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	queue, host := opened.(*stream), make([]byte, 64)
	for range 50 {
		if err := errors.Join(queue.CopyIn(at, host), queue.Record(e), queue.CopyOut(host, at)); err != nil {
			t.Fatal(err)
		}
		if done, err := e.Done(); !done || err != nil {
			t.Fatal(done, err)
		}
		if n := len(queue.kept); n != 1 {
			t.Fatalf("%d pieces of host memory are kept, want the one behind the event", n)
		}
	}
	if err := queue.Synchronize(); err != nil || len(queue.kept) != 0 {
		t.Errorf("%d pieces are kept after the stream was waited for: %v", len(queue.kept), err)
	}
	s.noComplaints(t)
}

func TestALostDeviceSaysSoUntilItIsOpenedAnew(t *testing.T) {
	s := openStandIn(t)
	s.call(t, "standin_lose")
	var e *cuda.Error
	for range 2 {
		if _, err := s.device.Alloc(64); !errors.As(err, &e) || !e.Sticky || e.Code != cuda.Fault {
			t.Fatalf("an illegal address gave %v, want a fault that loses the device", err)
		}
	}
	if err := s.device.Close(); err != nil {
		t.Fatal(err)
	}
	s.reopen(t)
}

// reopen opens the device again, which must give memory.
func (s *standIn) reopen(t *testing.T) {
	t.Helper()
	again, err := Open(s.path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Alloc(64); err != nil {
		t.Errorf("opened anew: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestAContextThatIsNotDestroyedIsLeftBehind closes a device whose driver waits for a kernel without end.
func TestAContextThatIsNotDestroyedIsLeftBehind(t *testing.T) {
	s := openStandIn(t)
	d, soon := s.device.(*device), 50*time.Millisecond
	s.call(t, "standin_hang", 1)
	var e *cuda.Error
	if err := d.closeWithin(soon); !errors.As(err, &e) || !e.Sticky || !strings.Contains(e.Msg, "left behind") {
		t.Fatalf("closed with %v, want an error that says that the context is left behind", err)
	}
	if err := left.await(d.place, soon); !errors.As(err, &e) || !e.Sticky {
		t.Errorf("while the old context is there a new one is made: %v", err)
	}
	if err := left.await(place{d.place.library, 1}, soon); err != nil {
		t.Errorf("another device waits, too: %v", err)
	}
	s.call(t, "standin_hang", 0)
	s.reopen(t) // which waits for the end of the old one
	s.noComplaints(t)
}

func TestNoLibraryAndAnOldOneAreErrors(t *testing.T) {
	var e *cuda.Error
	if _, err := Open("libnosuchcuda.so.1", 0); !errors.As(err, &e) || e.Code != cuda.NotFound {
		t.Errorf("without a library: %v", err)
	}
	old := build(t, "testdata/standin.c", "-DcuFuncGetParamInfo=cuFuncGetParamInfoLater")
	if _, err := Open(old, 0); !errors.As(err, &e) || !strings.Contains(e.Msg, "cuFuncGetParamInfo") {
		t.Errorf("with a library that lacks a function: %v", err)
	}
}
