package extensions

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter"
)

// importModule is the name under which a guest finds what the node offers.
const importModule = "corenode"

// hostFunction is one function that a guest may import. The guest's signature
// must be this one.
type hostFunction struct {
	params, results []api.ValueType
	call            api.GoModuleFunc
}

// offered are the functions of "corenode" for one generation.
func (h *Host) offered(g *generation) map[string]hostFunction {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	return map[string]hostFunction{
		"log": {params: []api.ValueType{i32, i32, i32}, call: func(_ context.Context, m api.Module, stack []uint64) {
			charge(m, ticksHost)
			n := min(uint32(stack[2]), logLineMax)
			if text, ok := m.Memory().Read(uint32(stack[1]), n); ok {
				h.guestLog(g, guestLevel(int32(stack[0])), text)
			}
		}},
		"metric": {params: []api.ValueType{i32, i64}, call: func(_ context.Context, m api.Module, stack []uint64) {
			charge(m, ticksHost)
			if id := uint32(stack[0]); id < metricsMax {
				g.tally.metrics[id].Add(int64(stack[1]))
			}
		}},
	}
}

func guestLevel(n int32) slog.Level {
	levels := [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	return levels[min(max(n, 0), int32(len(levels)-1))]
}

// charge takes ticks from the guest that called the host: what it has done there
// is work too. The guest is stopped at its next tick where that was too much.
func charge(m api.Module, ticks int) {
	if left, ok := m.ExportedGlobal(meter.GlobalLeft).(api.MutableGlobal); ok {
		left.Set(left.Get() - uint64(ticks))
	}
}

// guestLog writes one line of a guest, within its rate. A line beyond it costs
// next to nothing.
func (h *Host) guestLog(g *generation, level slog.Level, line []byte) {
	if len(line) == 0 || !g.lines.allow(h.now()) {
		return
	}
	if text := clean(string(line), logLineMax); text != "" {
		h.log.Log(context.Background(), level, "module says", "module", g.title(), "text", text)
	}
}

// checkImports refuses whatever a guest wants beyond what it is offered.
func checkImports(info *meter.Info, m *Manifest) error {
	for _, i := range info.Imports {
		name := i.Module + "." + i.Name
		switch {
		case i.Module == importModule:
			f, ok := (*Host)(nil).offered(nil)[i.Name]
			if !ok {
				return refused("imports", "only corenode.log and corenode.metric exist", "it imports %s", name)
			}
			if !sameTypes(i.Params, f.params) || !sameTypes(i.Results, f.results) {
				return refused("imports", "declare it as the ABI does", "it imports %s with another signature", name)
			}
		case i.Module == wasiModule && m.Runtime == runtimeGo:
			if err := checkWASI(i); err != nil {
				return err
			}
		case i.Module == wasiModule:
			return refused("imports", `build it without a C library that needs WASI; only manifests that say "runtime": "go" get a stub of it`,
				"it imports %s", name)
		default:
			return refused("imports", "a module has no authority: it may import corenode.log and corenode.metric only", "it imports %s", name)
		}
	}
	return nil
}

func sameTypes(have []meter.ValType, want []api.ValueType) bool {
	return slices.EqualFunc(have, want, func(a meter.ValType, b api.ValueType) bool { return byte(a) == b })
}

// link gives a runtime the functions that a checked module imports.
func (h *Host) link(r wazero.Runtime, g *generation, info *meter.Info) error {
	offered := h.offered(g)
	var builders [2]wazero.HostModuleBuilder
	names := [2]string{importModule, wasiModule}
	for _, i := range info.Imports {
		n := slices.Index(names[:], i.Module)
		if builders[n] == nil {
			builders[n] = r.NewHostModuleBuilder(i.Module)
		}
		f := offered[i.Name]
		if i.Module == wasiModule {
			f = h.wasi(g, i)
		}
		builders[n].NewFunctionBuilder().WithGoModuleFunction(f.call, f.params, f.results).Export(i.Name)
	}
	for _, b := range builders {
		if b == nil {
			continue
		}
		if _, err := b.Instantiate(context.Background()); err != nil {
			return fmt.Errorf("link: %w", err)
		}
	}
	return nil
}
