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
	before := own + int(binary.LittleEndian.Uint16(b[2:]))
	after := before + int(binary.LittleEndian.Uint16(b[4:]))
	if after != len(b) {
		return state{block: noBlock}
	}
	return state{b[0], b[stateHeader:own:own], b[own:before:before], b[before:after:after]}
}

func (s *state) append(dst []byte) []byte {
	if len(s.before)+len(s.after) > aroundBytesMax {
		s.block, s.before, s.after = noBlock, nil, nil
	}
	dst = append(dst, s.block, byte(len(s.own)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s.before)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s.after)))
	return append(append(append(dst, s.own...), s.before...), s.after...)
}

// Events is a Translator's Events.
func Events(w Writer, dst, next []byte, in abi.EventsInput) (bytes, after []byte) {
	s := readState(in.State)
	for events := in.Events; ; {
		f, ok := events.Next()
		if !ok {
			return dst, s.append(next)
		}
		if f.Kind != abi.EventDelta || f.Block > abi.BlockText {
			dst, s.own = w.Other(dst, s.own, &in, f)
			if f.Kind == abi.EventBlockStart && f.Block <= abi.BlockText {
				s.prepare(w, &in.Facts, f.Block)
			}
			continue
		}
		s.prepare(w, &in.Facts, f.Block)
		if len(f.Payload) > 0 && len(s.before) > 0 {
			dst = append(append(append(dst, s.before...), f.Payload...), s.after...)
		}
	}
}

// prepare makes what stands around pieces of a block, unless it is made.
func (s *state) prepare(w Writer, facts *abi.Facts, b abi.BlockKind) {
	if s.block != byte(b) {
		s.block = byte(b)
		s.before, s.after = w.Around(s.own, facts, b)
	}
}

// Handler is sdk.RouterHandler of r, with a short way for groups of pieces. r
// writes its streams with Events.
func Handler(r sdk.Router) sdk.Handler {
	general := sdk.RouterHandler(r)
	return func(op abi.Op, in, dst []byte) []byte {
		if op == abi.OpEvents {
			if out, ok := quick(in, dst); ok {
				return out
			}
		}
		return general(op, in, dst)
	}
}

const (
	sectionHeader = 4 // the length before a section of a record
	frameHeader   = 8 // what stands before a frame's payload
)

// quick is OpEvents for a group of nothing but pieces of the block that the
// state is made for; false for every other group, which the general way takes.
// It makes few calls, and the state goes from the input to the output in one
// piece, its length included: a Go guest takes a fraction of the general time.
//
// Before the state stand created i64, stream u8, id and model; behind it kept
// and history, which are empty here: two lengths of 0.
func quick(in, dst []byte) ([]byte, bool) {
	from := 8 + 1
	for range 2 {
		if from > len(in)-sectionHeader {
			return dst, false
		}
		from += sectionHeader + int(abi.Uint32(in, from))
	}
	if from > len(in)-sectionHeader {
		return dst, false
	}
	to := from + sectionHeader + int(abi.Uint32(in, from))
	if to > len(in)-2*sectionHeader || abi.Uint64(in, to) != 0 {
		return dst, false
	}
	s := readState(in[from+sectionHeader : to])
	if s.block > byte(abi.BlockText) || len(s.before) == 0 {
		return dst, false
	}
	start, events := len(dst), in[to+2*sectionHeader:]
	if cap(dst)-start < abi.OutputHeader {
		dst = slices.Grow(dst, abi.OutputHeader)
	}
	dst = append(dst[:start+abi.OutputHeader], in[from:to]...)
	for len(events) > frameHeader {
		end := frameHeader + int(abi.Uint32(events, 4))
		if events[0] != byte(abi.EventDelta) || events[1] != s.block || end > len(events) || end == frameHeader {
			return dst[:start], false
		}
		if most := len(s.before) + end + len(s.after); cap(dst)-len(dst) < most {
			dst = slices.Grow(dst, most)
		}
		dst = append(append(append(dst, s.before...), events[frameHeader:end]...), s.after...)
		events = events[end:]
	}
	if len(events) > 0 {
		return dst[:start], false
	}
	abi.PutUint64(dst, start, uint64(len(dst)-start-abi.OutputHeader)<<32) // status and kind are 0
	return dst, true
}
