package responses

import (
	"slices"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// Handler is the translator as a module: sdk.TranslatorHandler of New, with a
// short way for the calls that are nearly all of them. Event groups up to the first item are marked as early.
func Handler() sdk.Handler {
	general := sdk.TranslatorHandler(New())
	return func(op abi.Op, in, dst []byte) []byte {
		if op == abi.OpEvents {
			end := quick(in, dst)
			for end == noRoom {
				dst = slices.Grow(dst, 2*(cap(dst)+len(in)+abi.Ahead))
				end = quick(in, dst)
			}
			if end > 0 {
				return dst[:end]
			}
		}
		start := len(dst)
		dst = general(op, in, dst)
		if flags := start + abi.OutputHeader + sectionHeader + stateFlags; op == abi.OpEvents &&
			flags < len(dst) && dst[flags]&flagTold == 0 {
			abi.MarkEarly(dst, start)
		}
		return dst
	}
}

// quick is OpEvents for a group of nothing but deltas of the block that the state
// is prepared for, unless that is held back. It returns where the output ends that it
// writes behind dst, within its capacity: 0 for every other group, which the general way
// takes. It writes what writer.delta does, and like the quick of sdk/piece makes no calls.
//
// Before the state stand created i64, stream u8, id and model; behind it kept
// and history, which are empty here: two lengths of 0.
func quick(in, dst []byte) int {
	const id, sections = 8 + 1, 5 * sectionHeader
	size, start, room := len(in), len(dst), cap(dst)-abi.Ahead
	if size < id+sections || cap(in)-size < abi.Ahead {
		return 0
	}
	from := id + sectionHeader + int(abi.Uint32(in, id))
	if from > size-sectionHeader {
		return 0
	}
	from += sectionHeader + int(abi.Uint32(in, from))
	if from > size-sectionHeader {
		return 0
	}
	to := from + sectionHeader + int(abi.Uint32(in, from))
	if to > size-2*sectionHeader || to-from < sectionHeader+stateHead || abi.Uint64(in, to) != 0 {
		return 0
	}
	sequence, header := abi.Uint64(in, from+sectionHeader), abi.Uint64(in, from+sectionHeader+stateFlags)
	between := to - int(byte(header>>24))
	middle := between - int(byte(header>>16))
	head, mark := to-between-len(deltaEnd), uint32(header>>32)
	if header&flagHeld != 0 || head < 0 || middle < from+sectionHeader+stateHead ||
		byte(mark) != byte(abi.EventDelta) || byte(mark>>8) > byte(abi.BlockToolUse) {
		return 0
	}
	end, at := start+abi.OutputHeader+to-from, to+2*sectionHeader
	if end+head > room {
		return noRoom
	}
	in, dst = in[:size+abi.Ahead], dst[:cap(dst)]
	abi.Copy(dst, start+abi.OutputHeader, in, from, to-from)
	abi.Copy(dst, end, in, to-head, head)
	number, digits := decimal(sequence)
	for at <= size-frameHeader {
		frame := abi.Uint64(in, at)
		at += frameHeader
		n := int(frame >> 32)
		if uint32(frame) != mark || n > size-at || digits > numberBytes {
			return 0
		}
		end += head
		if end+numberBytes+n+to-middle > room {
			return noRoom
		}
		abi.PutUint64(dst, end, number)
		end += digits
		abi.Copy(dst, end, in, middle, between-middle)
		end += between - middle
		abi.CopyShort(dst, end, in, at, n)
		at += n
		end += n
		abi.Copy(dst, end, in, between, to-between)
		end += len(deltaEnd)
		sequence++
		number, digits = following(number, digits, sequence)
	}
	if at != size {
		return 0
	}
	abi.PutUint64(dst, start+abi.OutputHeader+sectionHeader, sequence)
	abi.PutUint64(dst, start, uint64(end-start-abi.OutputHeader)<<32) // status and kind are 0
	return end
}

// decimal gives a number as text, the first digit in the lowest byte. It is whole if
// digits is at most numberBytes.
func decimal(n uint64) (text uint64, digits int) {
	for {
		text = text<<8 | '0' + n%10
		digits++
		if n /= 10; n == 0 {
			return text, digits
		}
	}
}

// following is decimal of n, made of that of the number before.
func following(number uint64, digits int, n uint64) (uint64, int) {
	if last := 8 * (digits - 1); byte(number>>last) != '9' {
		return number + 1<<last, digits
	}
	return decimal(n)
}

const (
	sectionHeader = 4 // the length before a section of a record
	frameHeader   = 8 // what stands before a frame's payload
	stateFlags    = 8 // where a state's flags stand
	stateHeld     = 9 // where its number of deltas does, with the lengths and the mark behind it
	numberBytes   = 8
	noRoom        = -1
)
