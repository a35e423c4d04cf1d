// Package piece writes streams of which nearly all is pieces of text: what
// stands before and after one is made when the first comes, and carried in the
// state. A Writer says what that is, and writes everything else itself.
//
// The state is the kind of block that the pieces are made for, three lengths,
// and behind them the Writer's own state, what stands before a piece and what
// stands after it. Groups of nothing but pieces of that kind are most of a
// stream: Handler writes them without decoding anything.
package piece

import (
	"encoding/binary"
	"slices"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// Writer is what a protocol says about its streams.
type Writer interface {
	// Around gives what stands before and after a piece of a block of text or
	// thinking; nothing before it when such pieces are not written. It depends on
	// facts and on what own is after the start of the answer.
	Around(own []byte, facts *abi.Facts, b abi.BlockKind) (before, after []byte)
	// Other appends what any other frame gives, and returns the next own state, at
	// most OwnBytesMax: own, which is not written to, or another one.
	Other(dst, own []byte, in *abi.EventsInput, f abi.Frame) (bytes, next []byte)
}

const (
	// OwnBytesMax bounds a Writer's own state.
	OwnBytesMax = 255
	// aroundBytesMax is the most that a state carries around pieces; what is longer,
	// with a very long model id, is made again for every group.
	aroundBytesMax = 2 << 10

	stateHeader = 6 // block u8, length of own u8, of before u16, of after u16
	noBlock     = 0xFF
)

// state is a state taken apart. It aliases what it was read from.
type state struct {
	block              byte // noBlock: nothing was made
	own, before, after []byte
}

func readState(b []byte) state {
	if len(b) < stateHeader {
		return state{block: noBlock}
	}
	own := stateHeader + int(b[1])
	after := own + int(binary.LittleEndian.Uint16(b[4:]))
	before := after + int(binary.LittleEndian.Uint16(b[2:]))
	if before != len(b) {
		return state{block: noBlock}
	}
	return state{b[0], b[stateHeader:own:own], b[after:before:before], b[own:after:after]}
}

func (s *state) append(dst []byte) []byte {
	if len(s.before)+len(s.after) > aroundBytesMax {
		s.block, s.before, s.after = noBlock, nil, nil
	}
	dst = append(dst, s.block, byte(len(s.own)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s.before)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s.after)))
	return append(append(append(dst, s.own...), s.after...), s.before...)
}

// Events is a Translator's Events.
func Events(w Writer, dst, next []byte, in abi.EventsInput) (bytes, after []byte) {
	s := readState(in.State)
	var shown *abi.EventsInput // to w; a copy, which only groups that need it take from the heap
	for events := in.Events; ; {
		f, ok := events.Next()
		if !ok {
			return dst, s.append(next)
		}
		piece := f.Kind == abi.EventDelta && f.Block <= abi.BlockText
		if shown == nil && (!piece || s.block != byte(f.Block)) {
			all := in
			shown = &all
		}
		if !piece {
			dst, s.own = w.Other(dst, s.own, shown, f)
			if f.Kind == abi.EventBlockStart && f.Block <= abi.BlockText {
				s.prepare(w, shown, f.Block)
			}
			continue
		}
		s.prepare(w, shown, f.Block)
		if len(f.Payload) > 0 && len(s.before) > 0 {
			dst = append(append(append(dst, s.before...), f.Payload...), s.after...)
			dst, events = s.more(dst, events)
		}
	}
}

// more appends the pieces that events begin with, and returns the rest. dst ends with one.
func (s *state) more(dst []byte, events abi.Frames) ([]byte, abi.Frames) {
	if len(events) <= frameHeader+abi.AheadShort {
		return dst, events
	}
	end := len(dst)
	if cap(dst)-end < len(s.before)+abi.Ahead {
		dst = slices.Grow(dst, len(s.before)+abi.Ahead+end+len(events))
	}
	dst = append(dst, s.before...)
	end, used := run(dst[:cap(dst)], end, len(s.before), len(s.after), s.block, events)
	return dst[:end], events[used:]
}

// run writes pieces of a block into dst, of which dst[:end] is the last one's and
// what stands before the next is there. It stops at other frames, where there is no
// room, and before the last bytes of events. It returns where the last piece ends and
// how much of events was read. Like quick it makes no calls.
func run(dst []byte, end, head, tail int, block byte, events []byte) (last, used int) {
	after, room, size := end-tail, len(dst)-abi.Ahead, len(events)-abi.AheadShort
	for used <= size-frameHeader {
		frame := abi.Uint64(events, used)
		n := int(frame >> 32)
		if uint16(frame) != uint16(abi.EventDelta)|uint16(block)<<8 || n == 0 || n > size-frameHeader-used ||
			end+head+n+tail+head > room {
			break
		}
		used += frameHeader
		end += head
		abi.CopyShort(dst, end, events, used, n)
		used += n
		end += n
		abi.Copy(dst, end, dst, after, tail+head)
		end += tail
	}
	return end, used
}

// prepare makes what stands around pieces of a block, unless it is made.
func (s *state) prepare(w Writer, in *abi.EventsInput, b abi.BlockKind) {
	if s.block != byte(b) {
		s.block = byte(b)
		s.before, s.after = w.Around(s.own, &in.Facts, b)
	}
}

// Handler is that of a Translator or sdk.Router that writes its streams with Events,
// with a short way for groups of pieces.
func Handler(t sdk.Translator) sdk.Handler {
	general := sdk.TranslatorHandler(t)
	if r, ok := t.(sdk.Router); ok {
		general = sdk.RouterHandler(r)
	}
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
		return general(op, in, dst)
	}
}

const (
	sectionHeader = 4 // the length before a section of a record
	frameHeader   = 8 // what stands before a frame's payload
	noRoom        = -1
)

// quick is OpEvents for a group of nothing but pieces of the block that the
// state is made for. It returns where the output ends that it writes behind dst,
// within its capacity: 0 for every other group, which the general way takes. The
// state goes from the input to the output in one piece, its length included. A Go
// guest pays for a call, and for a branch that is taken, as for dozens of bytes, so
// this makes no calls.
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
	if to > size-2*sectionHeader || to-from < sectionHeader+stateHeader || abi.Uint64(in, to) != 0 {
		return 0
	}
	header := abi.Uint64(in, from+sectionHeader)
	after := from + sectionHeader + stateHeader + int(byte(header>>8))
	tail := int(uint16(header >> 32))
	head := to - after - tail
	if byte(header) > byte(abi.BlockText) || head <= 0 || head != int(uint16(header>>16)) {
		return 0
	}
	end, at := start+abi.OutputHeader+to-from, to+2*sectionHeader
	if end+head > room {
		return noRoom
	}
	in, dst = in[:size+abi.Ahead], dst[:cap(dst)]
	abi.Copy(dst, start+abi.OutputHeader, in, from, to-from)
	abi.Copy(dst, end, in, to-head, head)
	for at <= size-frameHeader {
		frame := abi.Uint64(in, at)
		at += frameHeader
		n := int(frame >> 32)
		if uint16(frame) != uint16(abi.EventDelta)|uint16(header)<<8 || n == 0 || n > size-at {
			return 0
		}
		end += head
		if end+n+tail+head > room {
			return noRoom
		}
		abi.CopyShort(dst, end, in, at, n)
		at += n
		end += n
		abi.Copy(dst, end, in, after, tail+head)
		end += tail
	}
	if at != size {
		return 0
	}
	abi.PutUint64(dst, start, uint64(end-start-abi.OutputHeader)<<32) // status and kind are 0
	return end
}
