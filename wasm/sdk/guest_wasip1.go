//go:build wasip1

package sdk

import (
	"unsafe"

	"corenode/wasm/abi"
)

// guest is the one module of this program. Both buffers are reused from call
// to call and only grow: they are as large as the largest input and output so
// far, so a call in steady state takes nothing from the heap.
var guest struct {
	handler Handler
	config  Configurable // nil when the module takes no configuration
	input   []byte       // the host writes here
	output  []byte       // the last frame; the host reads it before the next call
}

func serve(h Handler, c Configurable) { guest.handler, guest.config = h, c }

//go:wasmexport abi
func exportABI() int32 { return abi.VersionGuest }

// exportBuf gives the input buffer, and abi.Ahead bytes behind it. The heap of a Go
// guest never moves what it has, so the place stays right until a larger buffer is asked for.
//
//go:wasmexport buf
func exportBuf(n int32) int32 {
	if int(uint32(n))+abi.Ahead > len(guest.input) {
		guest.input = make([]byte, max(int(uint32(n))+abi.Ahead, inputBytesMin))
	}
	return int32(uintptr(unsafe.Pointer(unsafe.SliceData(guest.input))))
}

// inputBytesMin is the size of the first input buffer: event groups fit, so
// that most guests allocate it once.
const inputBytesMin = 4 << 10

//go:wasmexport init
func exportInit(n int32) int64 {
	if int(uint32(n)) > len(guest.input) {
		return 0
	}
	guest.output = configure(guest.config, guest.input[:n], guest.output[:0])
	return place(guest.output)
}

//go:wasmexport call
func exportCall(op, n int32) int64 {
	if guest.handler == nil || int(uint32(n)) > len(guest.input)-abi.Ahead {
		return 0
	}
	guest.output = guest.handler(abi.Op(uint32(op)), guest.input[:n], guest.output[:0])
	return place(guest.output)
}

// place packs where a frame is, pointer<<32 | length; 0 for none.
func place(frame []byte) int64 {
	if len(frame) == 0 {
		return 0
	}
	pointer := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(frame))))
	return int64(pointer<<32 | uint64(uint32(len(frame))))
}

// Only a module that calls Log or Count imports what they need: the linker
// drops what nothing reaches.

//go:wasmimport corenode log
func hostLog(level int32, text unsafe.Pointer, n int32)

//go:wasmimport corenode metric
func hostMetric(id int32, delta int64)

func log(l Level, text string) {
	hostLog(int32(l), unsafe.Pointer(unsafe.StringData(text)), int32(len(text)))
}

func count(id int32, delta int64) { hostMetric(id, delta) }
