package responses

import (
	"bytes"
	"encoding/binary"
	"math"
)

// state is what the calls of one stream hand on:
//
//	next sequence number u64, flags u8, deltas held back since an event u8, lengths of middle and between u8 each,
//	mark u32, hashes of the custom tools' names u64 each, middle, between
//
// It is at most stateHead + 8*customMax + 2*255 bytes, which is below the bound of the
// interface. Its size changes with the block that deltas are of.
type state struct {
	sequence uint64
	flags    uint8
	held     uint8  // below heldDeltas
	custom   hashes // aliases the input
	deltas
}

// deltas are what the deltas of one block have in common.
type deltas struct {
	mark    uint32 // what their frames begin with; 0 is none
	middle  []byte // stands between the number and the text
	between []byte // stands behind the text: deltaEnd, and what the next one begins with, up to its number
}

const (
	flagBegun   = 1 << iota // response.created is written
	flagHeld                // the open block is held back until it is whole
	flagSearch              // keptSearch of the request
	flagSummary             // keptSummary
	flagInput               // the block that is held back is a custom tool's call
	flagTold                // of an item: before that nothing of the answer has left
)

const (
	stateHead = 16
	// heldDeltas is how many deltas are held back before an event says that the stream lives.
	heldDeltas = 32
	// customMax bounds the custom tools of a request.
	customMax = 256
)

func parseState(b []byte) state {
	if len(b) < stateHead {
		return state{}
	}
	s := state{sequence: binary.LittleEndian.Uint64(b), flags: b[stateFlags], held: b[stateHeld]}
	between := len(b) - int(b[stateHeld+2])
	middle := between - int(b[stateHeld+1])
	if middle < stateHead {
		return state{}
	}
	s.custom = b[stateHead:middle:middle]
	if len(b)-between >= len(deltaEnd) {
		s.deltas = deltas{binary.LittleEndian.Uint32(b[stateHeld+3:]), b[middle:between:between], b[between:]}
	}
	return s
}

func (s state) special() special {
	return special{s.custom, s.flags&flagSearch != 0, s.flags&flagSummary != 0}
}

func (s state) append(dst []byte) []byte {
	d := s.deltas
	if len(d.middle) > math.MaxUint8 { // with a very long id it is made for every group
		d = deltas{}
	}
	dst = binary.LittleEndian.AppendUint64(dst, s.sequence)
	dst = append(dst, s.flags, s.held, byte(len(d.middle)), byte(len(d.between)))
	dst = binary.LittleEndian.AppendUint32(dst, d.mark)
	return append(append(append(dst, s.custom...), d.middle...), d.between...)
}

// hashes is a set of names: their FNV-1a hashes, 8 bytes each. Two names of
// one request that collide would only confuse the one who chose them.
type hashes []byte

func hash(name []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range name {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

func (h hashes) has(name []byte) bool {
	if len(h) == 0 {
		return false
	}
	want := hash(name)
	for b := []byte(h); len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) == want {
			return true
		}
	}
	return false
}

func (h hashes) add(name []byte) hashes {
	return binary.LittleEndian.AppendUint64(h, hash(name))
}

// special is what makes blocks of an answer other items than function calls and messages.
type special struct {
	custom  hashes // tools
	search  bool   // searchTool is the client's own search of tools
	summary bool   // text is a summary of the conversation
}

// kept is what an answer knows of its request:
//
//	flags u8, number of hashes u16, hashes, members
//
// members are those of the response object that echo the request, as JSON text
// "name":value,... without braces.
type kept struct {
	flags   uint8
	custom  hashes
	members []byte
}

const (
	// keptRenumbered says that the tools' places differ from those in the request.
	keptRenumbered = 1 << iota
	// keptSearch: the client searches tools itself.
	keptSearch
	// keptSummary: the answer is a summary of the conversation.
	keptSummary
	// keptStopText: stop was a string.
	keptStopText
)

func parseKept(b []byte) kept {
	if len(b) < 3 {
		return kept{members: []byte(membersDefault)}
	}
	n := 3 + 8*int(binary.LittleEndian.Uint16(b[1:]))
	if n > len(b) {
		return kept{members: []byte(membersDefault)}
	}
	return kept{flags: b[0], custom: b[3:n:n], members: b[n:]}
}

func (k kept) special() special {
	return special{k.custom, k.flags&keptSearch != 0, k.flags&keptSummary != 0}
}

func (k kept) append(dst []byte) []byte {
	dst = append(dst, k.flags)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(k.custom)/8))
	return append(append(dst, k.custom...), k.members...)
}

// splitName takes a native tool name apart. Both parts alias it.
func splitName(native []byte) (namespace, name []byte) {
	if before, after, ok := bytes.Cut(native, []byte{namespaceMark}); ok {
		return before, after
	}
	return nil, native
}

// namespaceMark stands between a namespace and a name in native tool names.
const namespaceMark = ':'
