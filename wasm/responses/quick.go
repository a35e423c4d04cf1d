package responses

import (
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// Handler is the translator as a module: sdk.TranslatorHandler of New, with a
// short way for the calls that are nearly all of them. Event groups up to the first item are marked as early.
func Handler() sdk.Handler {
	general := sdk.TranslatorHandler(New())
	return func(op abi.Op, in, dst []byte) []byte {
		if op == abi.OpEvents {
			if out, ok := quick(in, dst); ok {
				return out
			}
		}
		start := len(dst)
		dst = general(op, in, dst)
		if flags := start + len(okHeader) + sectionHeader + stateFlags; op == abi.OpEvents &&
			flags < len(dst) && dst[flags]&flagTold == 0 {
			abi.MarkEarly(dst, start)
		}
		return dst
	}
}

// quick is OpEvents for a group of nothing but deltas, but for those of a block
// that is held back; false for every other group, which the general way takes. It writes
// what writer.delta does, in a fifth of the time in a Go guest: there every
// call, and every structure that is cleared or moved, costs as much as dozens
// of bytes, so this has none of the latter.
//
// Before the state stand created i64, stream u8, id and model; behind it kept
// and history, which are empty here: two lengths of 0.
func quick(in, dst []byte) ([]byte, bool) {
	const id, sections = 8 + 1, 5 * sectionHeader
	if len(in) < id+sections {
		return dst, false
	}
	idEnd := id + sectionHeader + int(abi.Uint32(in, id))
	if idEnd > len(in)-sectionHeader {
		return dst, false
	}
	from := idEnd + sectionHeader + int(abi.Uint32(in, idEnd))
	if from > len(in)-sectionHeader {
		return dst, false
	}
	to := from + sectionHeader + int(abi.Uint32(in, from))
	if to > len(in)-2*sectionHeader || to-from < sectionHeader+stateHead || abi.Uint64(in, to) != 0 {
		return dst, false
	}
	if in[from+sectionHeader+stateFlags]&flagHeld != 0 {
		return dst, false
	}
	sequence := abi.Uint64(in, from+sectionHeader)
	start, events := len(dst), in[to+2*sectionHeader:]
	dst = append(append(dst, okHeader...), in[from:to]...)
	begin, end, last := 0, 0, -1 // dst[begin:end] is the middle of the block and index last
	for len(events) >= frameHeader {
		size := frameHeader + int(abi.Uint32(events, 4))
		block, which := events[1], int(abi.Uint32(events, 0))
		if events[0] != byte(abi.EventDelta) || block > byte(abi.BlockToolUse) || size > len(events) {
			return dst[:start], false
		}
		form := &deltaForms[block]
		dst = appendDecimal(append(dst, form.head...), sequence)
		sequence++
		at := len(dst)
		if which == last {
			dst = append(dst, dst[begin:end]...)
		} else {
			index := uint64(events[2]) | uint64(events[3])<<8
			dst = append(append(append(dst, form.place...), in[id+sectionHeader:idEnd]...), '_')
			dst = append(appendDecimal(dst, index), placeIndex...)
			dst = append(appendDecimal(dst, index), form.before...)
			last = which
		}
		begin, end = at, len(dst)
		dst = append(append(dst, events[frameHeader:size]...), deltaEnd...)
		events = events[size:]
	}
	if len(events) > 0 {
		return dst[:start], false
	}
	abi.PutUint64(dst, start+len(okHeader)+sectionHeader, sequence)
	abi.EndOutput(dst, start)
	return dst, true
}

// appendDecimal is strconv.AppendUint without a buffer, which a Go guest would
// have to clear.
func appendDecimal(dst []byte, n uint64) []byte {
	digits := 1
	for rest := n; rest >= 10; rest /= 10 {
		digits++
	}
	dst = append(dst, "00000000000000000000"[:digits]...)
	for at := len(dst) - 1; n > 0; at-- {
		dst[at] = '0' + byte(n%10)
		n /= 10
	}
	return dst
}

const (
	// okHeader is an output's header before its length is known.
	okHeader      = "\x00\x00\x00\x00\x00\x00\x00\x00"
	sectionHeader = 4 // the length before a section of a record
	frameHeader   = 8 // what stands before a frame's payload
	stateFlags    = 8 // where a state's flags stand
	stateHeld     = 9 // where its number of deltas does
	deltaEnd      = "\"}\n\n"
	placeIndex    = `","output_index":`
)
