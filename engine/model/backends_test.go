package model

import (
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kernel/ref"
)

// maker makes a backend for a test; the model closes it.
type maker struct {
	name  string
	types []kernel.Type // of matrices that take a path of their own
	make  func(t testing.TB, threads int) kernel.Backend
}

// makers are the reference and every level of the CPU backend that this
// processor has.
func makers(t testing.TB) []maker {
	all := []maker{{"ref", []kernel.Type{kernel.F16}, func(testing.TB, int) kernel.Backend { return ref.New() }}}
	levels := cpu.Levels()
	if len(levels) == 0 {
		t.Fatal("the CPU backend has no level")
	}
	for _, level := range levels {
		types := []kernel.Type{kernel.Q8_0, kernel.Q4_K, kernel.F16}
		if level == "portable" { // slow, and one path for all quantized types
			types = types[:1]
		}
		all = append(all, maker{level, types, func(t testing.TB, threads int) kernel.Backend {
			return newCPU(t, cpu.Options{Level: level, Threads: threads})
		}})
	}
	return all
}

func newCPU(t testing.TB, o cpu.Options) kernel.Backend {
	t.Helper()
	b, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exactMakers compute in float32 or better; types are not used.
func exactMakers(t testing.TB) []maker {
	all := makers(t)
	for i := range all[1:] {
		level := all[1+i].name
		all[1+i].make = func(t testing.TB, threads int) kernel.Backend {
			return newCPU(t, cpu.Options{Level: level, Threads: threads, Exact: true})
		}
	}
	return all
}

// benchBackend is what benchmarks run on: the fastest level, all threads.
func benchBackend(t testing.TB) kernel.Backend { return newCPU(t, cpu.Options{}) }
