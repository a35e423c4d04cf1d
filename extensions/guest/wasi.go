package guest

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter"
)

// Go's own runtime for Wasm wants WASI preview 1. A guest whose manifest says
// so gets this stub of it: the clock stands still, randomness is the same
// bytes every time, what is written to standard output goes to the log, there
// are no arguments, no environment and no files. Hence a call of a Go guest is a
// function of its input like every other.

const wasiModule = "wasi_snapshot_preview1"

// WASI error numbers.
const (
	wasiOK     = 0
	wasiBadF   = 8
	wasiFault  = 21
	wasiNoSys  = 52
	wasiEpoch  = 1_700_000_000_000_000_000 // the time that guests see, ns since 1970
	wasiIovMax = 64
)

// guestExit is a guest program that ended itself, which a module must not.
type guestExit struct{ code uint32 }

func (e guestExit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// wasiNames are the other functions of preview 1: they answer that they do not exist.
var wasiNames = strings.Fields(`clock_res_get fd_advise fd_allocate fd_datasync fd_fdstat_set_rights
	fd_filestat_set_size fd_filestat_set_times fd_pread fd_pwrite fd_readdir fd_renumber fd_sync fd_tell
	path_create_directory path_filestat_get path_filestat_set_times path_link path_open path_readlink
	path_remove_directory path_rename path_symlink path_unlink_file proc_raise
	sock_accept sock_recv sock_send sock_shutdown`)

// wasiBadFD are those that say the same of a file descriptor, none of which is open.
var wasiBadFD = strings.Fields(`fd_close fd_fdstat_get fd_fdstat_set_flags fd_filestat_get fd_prestat_get
	fd_prestat_dir_name fd_read fd_seek`)

// wasiCalls are the ones that do something. Each gets the guest and its
// arguments and returns an error number; what it does beyond ticksHost it charges.
func wasiCalls(c *console) map[string]struct {
	params string // of i32 and i64, as "ii" and "I"
	call   func(m api.Module, a []uint64) uint32
} {
	type function = struct {
		params string
		call   func(m api.Module, a []uint64) uint32
	}
	zeros := func(m api.Module, a []uint64) uint32 {
		return wasiResult(m.Memory().WriteUint32Le(uint32(a[0]), 0) && m.Memory().WriteUint32Le(uint32(a[1]), 0))
	}
	nothing := func(api.Module, []uint64) uint32 { return wasiOK }
	return map[string]function{
		"args_sizes_get":    {"ii", zeros},
		"args_get":          {"ii", nothing},
		"environ_sizes_get": {"ii", zeros},
		"environ_get":       {"ii", nothing},
		"sched_yield":       {"", nothing},
		// A sleep ends at once: Go's runtime sleeps before it prints a panic.
		"poll_oneoff": {"iiii", func(m api.Module, a []uint64) uint32 {
			return wasiResult(m.Memory().WriteUint32Le(uint32(a[3]), 0))
		}},
		"clock_time_get": {"iIi", func(m api.Module, a []uint64) uint32 {
			return wasiResult(m.Memory().WriteUint64Le(uint32(a[2]), wasiEpoch))
		}},
		"random_get": {"ii", func(m api.Module, a []uint64) uint32 {
			b, ok := m.Memory().Read(uint32(a[0]), uint32(a[1]))
			if ok {
				charge(m, len(b)/8)
				fillRandom(b)
			}
			return wasiResult(ok)
		}},
		"fd_write": {"iiii", func(m api.Module, a []uint64) uint32 { return wasiWrite(c, m, a) }},
	}
}

func wasiResult(ok bool) uint32 {
	if ok {
		return wasiOK
	}
	return wasiFault
}

// fillRandom gives the same bytes on every call: nothing that a guest computes
// may depend on how often it was called before.
func fillRandom(b []byte) {
	r := rand.New(rand.NewPCG(0x636f7265, 0x6e6f6465))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// wasiWrite takes what a guest prints. It reaches the log line by line: Go's
// runtime writes a panic word by word.
func wasiWrite(c *console, guest api.Module, a []uint64) uint32 {
	m := guest.Memory()
	fd, vectors, n, written := uint32(a[0]), uint32(a[1]), uint32(a[2]), uint32(a[3])
	if fd != 1 && fd != 2 {
		return wasiBadF
	}
	if n > wasiIovMax {
		n = wasiIovMax
	}
	var text []byte
	var total uint32
	for i := range n {
		at, ok1 := m.ReadUint32Le(vectors + 8*i)
		size, ok2 := m.ReadUint32Le(vectors + 8*i + 4)
		b, ok3 := m.Read(at, size)
		if !ok1 || !ok2 || !ok3 {
			return wasiFault
		}
		text = append(text, b[:min(len(b), logLineMax-len(text))]...)
		total += size
	}
	lines := c.printed.add(text)
	charge(guest, len(text)+4*int(n)+ticksHost*len(lines))
	for _, line := range lines {
		c.say(slog.LevelWarn, []byte(line))
	}
	return wasiResult(m.WriteUint32Le(written, total))
}

// wasi is the function behind one import that checkWASI has let through. Those
// that are missing take whatever the guest declared.
func wasi(c *console, i meter.Import) hostFunction {
	f := hostFunction{params: valueTypes(i.Params), results: valueTypes(i.Results)}
	if i.Name == "proc_exit" {
		f.call = func(_ context.Context, _ api.Module, stack []uint64) { panic(guestExit{uint32(stack[0])}) }
		return f
	}
	number := uint64(wasiNoSys)
	if slices.Contains(wasiBadFD, i.Name) {
		number = wasiBadF
	}
	f.call = func(_ context.Context, m api.Module, stack []uint64) {
		charge(m, ticksHost)
		stack[0] = number
	}
	if known, ok := wasiCalls(c)[i.Name]; ok {
		f.call = func(_ context.Context, m api.Module, stack []uint64) {
			charge(m, ticksHost)
			stack[0] = uint64(known.call(m, stack))
		}
	}
	return f
}

func valueTypes(all []meter.ValType) []api.ValueType {
	out := make([]api.ValueType, len(all))
	for i, t := range all {
		out[i] = api.ValueType(t)
	}
	return out
}

// checkWASI refuses what is not in the stub, or not as it is there.
func checkWASI(i meter.Import) error {
	known, ok := wasiCalls(nil)[i.Name]
	results := []api.ValueType{api.ValueTypeI32}
	var params []api.ValueType
	switch {
	case i.Name == "proc_exit":
		params, results = []api.ValueType{api.ValueTypeI32}, nil
	case ok:
		for _, c := range known.params {
			params = append(params, map[rune]api.ValueType{'i': api.ValueTypeI32, 'I': api.ValueTypeI64}[c])
		}
	case slices.Contains(wasiNames, i.Name) || slices.Contains(wasiBadFD, i.Name):
		params = valueTypes(i.Params)
	default:
		return Refused("imports", "the stub for Go guests has WASI preview 1 only", "it imports %s.%s", i.Module, i.Name)
	}
	if !sameTypes(i.Params, params) || !sameTypes(i.Results, results) {
		return Refused("imports", "build it with the Go toolchain", "it imports %s.%s with another signature", i.Module, i.Name)
	}
	return nil
}
