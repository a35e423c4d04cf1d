package devicetest

import (
	"errors"
	"slices"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest"
	"corenode/engine/kernel/cuda/interp"
)

// group is a part of what cudatest asks of any device.
type group struct {
	name  string
	check func(*testing.T, cuda.Driver)
}

// groups are all of it; what needs most of a device comes last. The interpreter answers them in its own tests.
var groups = []group{
	{"integers", cudatest.Integers}, {"floats", cudatest.Floats}, {"conversions", cudatest.Conversions}, {"moves", cudatest.Moves},
	{"lanes", cudatest.Lanes}, {"atomics", cudatest.Atomics}, {"streams", cudatest.Streams}, {"matrices", cudatest.Matrices},
	{"groups", cudatest.Groups}, {"copies", cudatest.Copies}, {"boxes", cudatest.Boxes},
}

// TestInstructionsOfThisDevice asks a GPU what the interpreter is asked.
func TestInstructionsOfThisDevice(t *testing.T) {
	asked := slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !OnGPU() && g.name != "streams" })
	ask(t, asked, func(t *testing.T) cuda.Driver { return Open(t, interp.Config{}) })
}

// ask asks each group on a context of its own. A process that has lost a context gets no other one, so groups behind the one that
// lost it are left out.
func ask(t *testing.T, groups []group, open func(t *testing.T) cuda.Driver) {
	lost := ""
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			if lost != "" {
				t.Skipf("not asked, since %s lost the device", lost)
			}
			d := open(t)
			defer func() {
				if _, _, err := d.Memory(); err != nil {
					lost = g.name
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}()
			g.check(t, d)
		})
	}
}

func TestGroupsBehindALostDeviceAreNotAsked(t *testing.T) {
	var asked []string
	loses := func(t *testing.T, d cuda.Driver) {
		asked = append(asked, "second")
		d.(*interp.Device).Inject(interp.StickyFault, 1)
		if err := cudatest.Try(d, "", ""); err == nil {
			t.Error("a planted fault was not reported")
		}
		t.SkipNow() // as a check that gives up
	}
	notes := func(name string) func(*testing.T, cuda.Driver) {
		return func(*testing.T, cuda.Driver) { asked = append(asked, name) }
	}
	ask(t, []group{{"first", notes("first")}, {"second", loses}, {"third", notes("third")}, {"fourth", notes("fourth")}},
		func(*testing.T) cuda.Driver { return interp.Open(interp.Config{Seed: 1}) })
	if want := []string{"first", "second"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
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
