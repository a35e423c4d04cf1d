package chat

import (
	"slices"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// Handler is the translator as a module: sdk.TranslatorHandler of New, with a
// short way for the calls that are nearly all of them.
func Handler() sdk.Handler {
	general := sdk.TranslatorHandler(New())
	return func(op abi.Op, in, dst []byte) []byte {
		if op == abi.OpEvents {
			if out, ok := quick(in, dst); ok {
				return out
			}
		}
		return general(op, in, dst)
	}
}

// quick is OpEvents for a group of nothing but pieces of text, of the block
// that the state is prepared for; false for every other group, which the
// general way takes. In a Go guest it takes a fraction of that way's time,
// because it makes few calls and takes few branches: it reads only the parts of
// the input that it needs, and the state, which such a group does not change,
// goes from the input to the output in one piece, its length included. By
// sdk/piece alone a stream costs the guest 1.6 times the instructions.
//
// Before the state stand created i64, stream u8, id and model; behind it kept
// and history, which are empty here: two lengths of 0.
func quick(in, dst []byte) ([]byte, bool) {
	const id, sections = 8 + 1, 5 * sectionHeader
	if len(in) < id+sections {
		return dst, false
	}
	from := id + sectionHeader + int(abi.Uint32(in, id))
	if from > len(in)-sectionHeader {
		return dst, false
	}
	from += sectionHeader + int(abi.Uint32(in, from))
	if from > len(in)-sectionHeader {
		return dst, false
	}
	to := from + sectionHeader + int(abi.Uint32(in, from))
	if to > len(in)-2*sectionHeader || to-from <= sectionHeader+stateBytes || abi.Uint64(in, to) != 0 {
		return dst, false
	}
	start, events := len(dst), in[to+2*sectionHeader:]
	if cap(dst)-start < outputHeader {
		dst = slices.Grow(dst, outputHeader)
	}
	dst = append(dst[:start+outputHeader], in[from:to]...)
	from += sectionHeader
	usage, block := kept(in[from])&keptUsage != 0, in[from+stateBlock]
	if block > byte(abi.BlockText) {
		return dst[:start], false
	}
	before := in[from+stateBytes : to] // what stands before a text
	for len(events) > frameHeader {
		end := frameHeader + int(abi.Uint32(events, 4))
		if events[0] != byte(abi.EventDelta) || events[1] != block || end > len(events) || end == frameHeader {
			return dst[:start], false
		}
		if most := len(before) + end + len(textTailUsage); cap(dst)-len(dst) < most {
			dst = slices.Grow(dst, most)
		}
		dst = append(append(dst, before...), events[frameHeader:end]...)
		events = events[end:]
		n := len(dst)
		if usage {
			dst = dst[:n+len(textTailUsage)]
			*(*[len(textTailUsage)]byte)(dst[n:]) = tailUsageArray
		} else {
			dst = dst[:n+len(textTail)]
			*(*[len(textTail)]byte)(dst[n:]) = tailArray
		}
	}
	if len(events) > 0 {
		return dst[:start], false
	}
	abi.PutUint64(dst, start, uint64(len(dst)-start-outputHeader)<<32) // status and kind are 0
	return dst, true
}

// The tails as arrays: these are copied without a call.
var (
	tailArray      = [len(textTail)]byte([]byte(textTail))
	tailUsageArray = [len(textTailUsage)]byte([]byte(textTailUsage))
)

const (
	outputHeader  = abi.OutputHeader
	sectionHeader = 4 // the length before a section of a record
)
