package cpu

import (
	"runtime"
	"unsafe"
)

// vecStreams is how many panels a matVec kernel reads at a time.
const vecStreams = 4

// matVecFunc is a matMulFunc for one row and vecStreams panels that begin stride
// bytes apart; dst is [vecStreams][32].
type matVecFunc func(dst *float32, act, panel *byte, stride, steps int)

// readStreamsGo reads in one stream.
func readStreamsGo(p *byte, n int) {
	var sum uint64
	for _, v := range unsafe.Slice((*uint64)(unsafe.Pointer(p)), n/8) {
		sum |= v
	}
	runtime.KeepAlive(sum)
}
