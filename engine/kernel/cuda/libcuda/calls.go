//go:build cuda && linux

package libcuda

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"corenode/engine/kernel/cuda"
)

// call is one function of the driver.
type call int

// The functions that a device needs.
const (
	cuInit call = iota
	cuGetErrorString
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuCtxCreate
	cuCtxDestroy
	cuCtxSetCurrent
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuModuleLoadDataEx
	cuModuleGetFunction
	cuFuncGetParamInfo
	cuFuncSetAttribute
	cuLaunchKernel
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamBeginCapture
	cuStreamEndCapture
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8Async
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventElapsedTime
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphExecDestroy
	cuGraphDestroy
	cuTensorMapEncodeTiled
	calls
)

// symbols are their names in the library: of those with several versions the one whose
// arguments are written here.
var symbols = [calls]string{
	cuInit: "cuInit", cuGetErrorString: "cuGetErrorString",
	cuDeviceGet: "cuDeviceGet", cuDeviceGetName: "cuDeviceGetName", cuDeviceGetAttribute: "cuDeviceGetAttribute",
	cuCtxCreate: "cuCtxCreate_v2", cuCtxDestroy: "cuCtxDestroy_v2", cuCtxSetCurrent: "cuCtxSetCurrent",
	cuMemGetInfo: "cuMemGetInfo_v2", cuMemAlloc: "cuMemAlloc_v2", cuMemFree: "cuMemFree_v2",
	cuMemHostAlloc: "cuMemHostAlloc", cuMemFreeHost: "cuMemFreeHost",
	cuModuleLoadDataEx: "cuModuleLoadDataEx", cuModuleGetFunction: "cuModuleGetFunction",
	cuFuncGetParamInfo: "cuFuncGetParamInfo", cuFuncSetAttribute: "cuFuncSetAttribute", cuLaunchKernel: "cuLaunchKernel",
	cuStreamCreate: "cuStreamCreate", cuStreamDestroy: "cuStreamDestroy_v2", cuStreamSynchronize: "cuStreamSynchronize",
	cuStreamBeginCapture: "cuStreamBeginCapture_v2", cuStreamEndCapture: "cuStreamEndCapture",
	cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2", cuMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2", cuMemcpyDtoDAsync: "cuMemcpyDtoDAsync_v2",
	cuMemsetD8Async: "cuMemsetD8Async", cuEventCreate: "cuEventCreate", cuEventDestroy: "cuEventDestroy_v2",
	cuEventRecord: "cuEventRecord", cuEventQuery: "cuEventQuery", cuEventElapsedTime: "cuEventElapsedTime",
	cuGraphInstantiate: "cuGraphInstantiateWithFlags", cuGraphLaunch: "cuGraphLaunch",
	cuGraphExecDestroy: "cuGraphExecDestroy", cuGraphDestroy: "cuGraphDestroy", cuTensorMapEncodeTiled: "cuTensorMapEncodeTiled",
}

// library is the opened driver. It lies in the heap.
type library struct {
	at   [calls]uintptr
	said *byte // what cuGetErrorString gave
}

// openLibrary finds every function; one that is missing names the driver as too old.
func openLibrary(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &cuda.Error{Code: cuda.NotFound, Op: "open", Msg: err.Error()}
	}
	l := new(library)
	for i, name := range symbols {
		if l.at[i], err = purego.Dlsym(handle, name); err != nil {
			return nil, &cuda.Error{Code: cuda.NotFound, Op: "open",
				Msg: fmt.Sprintf("%s has no %s: the driver is older than CUDA 12.4", path, name)}
		}
	}
	return l, nil
}

// status is what a function of the driver returns.
type status int32

// The values that are told apart. notReady is no error.
const (
	invalidValue  status = 1
	outOfMemory   status = 2
	notFound      status = 500
	notReady      status = 600
	outOfResource status = 701
)

// badImages are the ways in which a module does not load.
var badImages = map[status]bool{200: true, 209: true, 218: true, 221: true, 222: true, 223: true, 300: true}

// lost are the errors after which a context is of no use.
var lost = map[status]bool{
	214: true, 700: true, 702: true, 709: true, 710: true, 714: true, 715: true, 716: true, 717: true, 718: true, 719: true, 999: true,
}

// do calls a function of the driver. Addresses among the arguments are of memory that
// neither moves nor goes while it runs: fields of the library and of a device's scratch, memory
// that these or a stream hold, and what the driver gave.
func (l *library) do(c call, args ...uintptr) status {
	r, _, _ := purego.SyscallN(l.at[c], args...)
	return status(r)
}

// fail is the error for a status of an operation, nil for none.
func (l *library) fail(op string, s status) error {
	if s == 0 {
		return nil
	}
	e := &cuda.Error{Code: cuda.Invalid, Op: op, Msg: l.text(s), Sticky: lost[s]}
	switch {
	case e.Sticky:
		e.Code = cuda.Fault
	case s == outOfMemory:
		e.Code = cuda.OutOfMemory
	case s == notFound:
		e.Code = cuda.NotFound
	case badImages[s]:
		e.Code = cuda.BadImage
	case s == outOfResource || op == "launch":
		e.Code = cuda.LaunchError
	}
	return e
}

// text is the driver's own words for a status.
func (l *library) text(s status) string {
	l.said = nil
	if l.do(cuGetErrorString, uintptr(s), address(&l.said)) != 0 || l.said == nil {
		return fmt.Sprintf("error %d", s)
	}
	return fmt.Sprintf("error %d: %s", s, goString(l.said))
}

// goString copies a string that ends with 0.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// address is where a variable lies, which the heap must hold by other means.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// locked holds the goroutine to its thread while the context is current there.
func (d *device) locked(op string, c call, args ...uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if s := d.lib.do(cuCtxSetCurrent, d.context); s != 0 {
		return d.note(d.lib.fail(op, s))
	}
	return d.note(d.lib.fail(op, d.lib.do(c, args...)))
}
