package abi

import "encoding/binary"

// Version is what this host speaks, major<<16 | minor. A guest's major must be the
// host's; its minor must not be above the host's. VersionGuest is what the kits
// export: nothing in them needs more, and which records a module is given follows
// from "abi" in its manifest.
const (
	Version      = VersionGuest | 1
	VersionGuest = 1 << 16
)

// A module of node-abi/1 exports, besides exactly one memory:
//
//	abi() i32                the version it was built for
//	buf(n i32) i32           its input buffer with room for n bytes; the host writes there
//	init(len i32) i64        takes the operator's configuration, a JSON object, once
//	call(op i32, len i32) i64  one operation on the input in the buffer
//
// init and call return the place of one output frame, pointer<<32 | length; 0
// is a fault. The frame stays untouched until the next call. A call is a pure
// function of its input: there is no clock, no randomness and no state between
// calls that an answer may depend on.

// String is the op's name in logs, metrics and golden vectors; "unknown" for others.
func (o Op) String() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return "unknown"
}

// OutputHeader is the size of what stands before an output's payload: status
// u8, zero u8, error kind u16, payload length u32, all little endian. With StatusOK the kind is
// zero, but of what MarkEarly marks.
const OutputHeader = 8

// BeginOutput appends the header of an output frame; EndOutput completes it.
func BeginOutput(dst []byte, s Status, k Kind) []byte {
	dst = append(dst, byte(s), 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(k))
	return append(dst, 0, 0, 0, 0)
}

// EndOutput sets the payload's length in the frame that begins at start.
func EndOutput(frame []byte, start int) {
	binary.LittleEndian.PutUint32(frame[start+4:], uint32(len(frame)-start-OutputHeader))
}

// early is the kind of an output that MarkEarly marks.
const early = 1

// MarkEarly says of an output of OpEvents, the frame that begins at start, that nothing of the answer is in its bytes
// or was in those before: they begin the stream, or say that it lives. If it breaks by then, it costs nothing. Hosts
// that do not know the mark skip it.
func MarkEarly(frame []byte, start int) {
	binary.LittleEndian.PutUint16(frame[start+2:], early)
}

// Early says whether an output of OpEvents is marked by MarkEarly.
func (o Output) Early() bool { return o.Status == StatusOK && o.Kind == early }

// Output is a decoded output frame. Payload aliases the frame.
type Output struct {
	Status  Status
	Kind    Kind // of a Refusal; else see Early
	Payload []byte
}

// ParseOutput decodes one output frame, which is all of b.
func ParseOutput(b []byte) (Output, error) {
	if len(b) < OutputHeader || int64(binary.LittleEndian.Uint32(b[4:])) != int64(len(b)-OutputHeader) {
		return Output{}, ErrMalformed
	}
	o := Output{Status: Status(b[0]), Kind: Kind(binary.LittleEndian.Uint16(b[2:])), Payload: b[OutputHeader:len(b):len(b)]}
	if o.Status > StatusDecline || b[1] != 0 {
		return Output{}, ErrMalformed
	}
	return o, nil
}

// RefusalBytesMax bounds a refusal's Param and Msg, each. The host cuts them, takes control
// characters out, and takes no kind but InvalidRequest, and of models ModelNotFound.
const RefusalBytesMax = 2048
