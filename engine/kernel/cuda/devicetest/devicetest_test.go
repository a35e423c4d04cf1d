package devicetest

import (
	"errors"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest"
	"corenode/engine/kernel/cuda/interp"
)

// checks are what cudatest asks of any device. The interpreter answers all of them in its own tests.
var checks = map[string]func(*testing.T, cuda.Driver){
	"integers": cudatest.Integers, "floats": cudatest.Floats, "conversions": cudatest.Conversions,
	"matrices": cudatest.Matrices, "groups": cudatest.Groups, "boxes": cudatest.Boxes,
	"lanes": cudatest.Lanes, "atomics": cudatest.Atomics, "moves": cudatest.Moves, "copies": cudatest.Copies, "streams": cudatest.Streams,
}

// TestInstructionsOfThisDevice asks a GPU what the interpreter is asked, each group on a context of its own.
func TestInstructionsOfThisDevice(t *testing.T) {
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			if name != "streams" && !OnGPU() {
				t.Skip("the interpreter's own tests ask it")
			}
			d := Open(t, interp.Config{})
			check(t, d)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// nothing is a kernel that does nothing.
const nothing = `.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing()
{
ret;
}
`

// rig is a device with a stream and the empty kernel.
func rig(b *testing.B) (d cuda.Driver, s cuda.Stream, f cuda.Function) {
	d = Open(b, interp.Config{})
	b.Cleanup(func() { _ = d.Close() })
	m, err1 := d.Load([]byte(nothing))
	if err1 != nil {
		b.Fatal(err1)
	}
	f, err2 := m.Function("nothing")
	s, err3 := d.NewStream()
	if err := errors.Join(err2, err3); err != nil {
		b.Fatal(err)
	}
	return d, s, f
}

// launches is how many kernels a step of a model of 40 layers has, about.
const launches = 300

// BenchmarkLaunches is the time of a step of empty kernels, launched one by one and as a graph.
func BenchmarkLaunches(b *testing.B) {
	_, s, f := rig(b)
	queue := func() error {
		for range launches {
			if err := s.Launch(f, cuda.Launch{}); err != nil {
				return err
			}
		}
		return nil
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if err := errors.Join(queue(), s.Synchronize()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("graph", func(b *testing.B) {
		err := errors.Join(s.BeginCapture(), queue())
		g, err2 := s.EndCapture()
		if err := errors.Join(err, err2); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := errors.Join(s.Replay(g), s.Synchronize()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCall is the time of a call into the driver that does next to nothing.
func BenchmarkCall(b *testing.B) {
	d, _, _ := rig(b)
	for b.Loop() {
		if _, _, err := d.Memory(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCopies moves memory within the device, and from and to page-locked memory of the host. A copy within
// reads and writes as many bytes.
func BenchmarkCopies(b *testing.B) {
	d, s, _ := rig(b)
	size := int64(16 << 20)
	if OnGPU() {
		size = 1 << 30
	}
	p, err1 := d.Alloc(2 * size)
	host, err2 := d.AllocHost(int(min(size, 256<<20)))
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	for name, copies := range map[string]func() (int64, error){
		"within": func() (int64, error) { return 2 * size, s.Copy(p, p+cuda.Pointer(size), size) },
		"in":     func() (int64, error) { return int64(len(host)), s.CopyIn(p, host) },
		"out":    func() (int64, error) { return int64(len(host)), s.CopyOut(host, p) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n, err := copies()
				if err := errors.Join(err, s.Synchronize()); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
			}
		})
	}
}
