package guest

import (
	"context"
	"log/slog"
	"slices"

	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter"
)

// hostFunction is one function that a guest may import. The guest's signature
// must be this one.
type hostFunction struct {
	params, results []api.ValueType
	call            api.GoModuleFunc
}

// fits says whether a guest declares the function as it is.
func (f hostFunction) fits(i meter.Import) bool {
	return sameTypes(i.Params, f.params) && sameTypes(i.Results, f.results)
}

func sameTypes(have []meter.ValType, want []api.ValueType) bool {
	return slices.EqualFunc(have, want, func(a meter.ValType, b api.ValueType) bool { return byte(a) == b })
}

// offered are the functions of "corenode" for the instances behind a console.
func offered(c *console) map[string]hostFunction {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	return map[string]hostFunction{
		"log": {params: []api.ValueType{i32, i32, i32}, call: func(_ context.Context, m api.Module, stack []uint64) {
			charge(m, ticksHost)
			n := min(uint32(stack[2]), logLineMax)
			if text, ok := m.Memory().Read(uint32(stack[1]), n); ok {
				c.say(guestLevel(int32(stack[0])), text)
			}
		}},
		"metric": {params: []api.ValueType{i32, i64}, call: func(_ context.Context, m api.Module, stack []uint64) {
			charge(m, ticksHost)
			c.count(uint32(stack[0]), int64(stack[1]))
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
