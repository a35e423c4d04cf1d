package tokenizer

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// tokenTable holds the bytes of all tokens and finds a token by them. Open
// addressing over ids: 4 bytes per slot instead of a Go map's 24 and more. Its
// hash is seeded, so no file can be made to collide.
type tokenTable struct {
	text    string   // all tokens, one after the other
	offsets []uint32 // token id is text[offsets[id]:offsets[id+1]]
	slots   []int32  // ids of normal tokens, -1 = free; at most half full
	seed    maphash.Seed
	longest int // bytes of the longest token in slots
}

// newTokenTable turns normal tokens back into the bytes they stand for. All
// other tokens, and normal ones written outside the byte alphabet, are plain
// text and cannot be found: only special matching may produce them. With plain, normal
// tokens are text too, and found.
func newTokenTable(tokens []string, kinds []uint8, plain bool) tokenTable {
	t := tokenTable{offsets: make([]uint32, len(tokens)+1), slots: newSlots(len(tokens)), seed: maphash.MakeSeed()}
	total := 0
	for _, token := range tokens {
		total += len(token)
	}
	var text strings.Builder
	text.Grow(total)
	var buffer []byte
	findable := make([]bool, len(tokens))
	for id, token := range tokens {
		buffer, findable[id] = tokenBytes(buffer[:0], token, kinds[id])
		if plain && kinds[id] == typeNormal {
			buffer, findable[id] = append(buffer[:0], token...), token != ""
		}
		text.Write(buffer)
		t.offsets[id+1] = uint32(text.Len()) // a vocabulary of 4 GiB fits no model file of ours
	}
	t.text = text.String()
	for id, ok := range findable {
		if ok {
			t.insert(int32(id))
		}
	}
	return t
}

// tokenBytes appends what a token stands for. findable is true for normal
// tokens in the byte alphabet.
func tokenBytes(dst []byte, token string, kind uint8) (out []byte, findable bool) {
	switch kind {
	case typeByte:
		return byteToken(dst, token), false
	case typeNormal:
		if out, ok := fromAlphabet(dst, token); ok {
			return out, len(token) > 0
		}
	}
	return append(dst, token...), false
}

// newSlots returns free slots for n entries: a power of two, at least 2n.
func newSlots(n int) []int32 {
	slots := make([]int32, 1<<bits.Len(uint(2*n)))
	for i := range slots {
		slots[i] = -1
	}
	return slots
}

// bytes returns what token id stands for.
func (t *tokenTable) bytes(id int32) string { return t.text[t.offsets[id]:t.offsets[id+1]] }

// slot returns where text is, or where it would go.
func (t *tokenTable) slot(text string) int {
	mask := len(t.slots) - 1
	i := int(maphash.String(t.seed, text)) & mask
	for t.slots[i] >= 0 && t.bytes(t.slots[i]) != text {
		i = (i + 1) & mask
	}
	return i
}

// insert adds a token; of two with the same bytes the first stays.
func (t *tokenTable) insert(id int32) {
	text := t.bytes(id)
	if i := t.slot(text); t.slots[i] < 0 {
		t.slots[i] = id
		t.longest = max(t.longest, len(text))
	}
}

func (t *tokenTable) find(text string) (int32, bool) {
	id := t.slots[t.slot(text)]
	return id, id >= 0
}

// noPair is larger than the value of any merge.
const noPair = ^uint64(0)

// pairTable maps two neighboring ids to rank<<32 | merged id, so that values
// compare as ranks do. Open addressing, at most two thirds full.
type pairTable struct {
	slots []pairSlot
	seed  uint64
	// bytes holds the values of pairs of two bytes once more, nil where no pair
	// begins with a byte: every merge begins with those, and they stay in cache.
	bytes [256]*[256]uint64
}

type pairSlot struct{ key, value uint64 } // value noPair = free

func newPairTable(n int) pairTable {
	p := pairTable{slots: make([]pairSlot, 1<<bits.Len(uint(n+n/2))), seed: rand.Uint64()}
	for i := range p.slots {
		p.slots[i].value = noPair
	}
	return p
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// slot returns where key is, or where it would go.
func (p *pairTable) slot(key uint64) *pairSlot {
	hi, lo := bits.Mul64(key^p.seed, 0x9e3779b97f4a7c15)
	mask := uint64(len(p.slots) - 1)
	for i := hi ^ lo; ; i++ {
		s := &p.slots[i&mask]
		if s.key == key || s.value == noPair {
			return s
		}
	}
}

// insert adds a merge; of two for the same pair the first stays.
func (p *pairTable) insert(left, right int32, rank int, merged int32) {
	key := pairKey(left, right)
	if s := p.slot(key); s.value == noPair {
		*s = pairSlot{key, uint64(rank)<<32 | uint64(uint32(merged))}
	}
}

// insertBytes adds the value of the ids of two bytes.
func (p *pairTable) insertBytes(a, b byte, value uint64) {
	if p.bytes[a] == nil {
		p.bytes[a] = new([256]uint64)
		for i := range p.bytes[a] {
			p.bytes[a][i] = noPair
		}
	}
	p.bytes[a][b] = value
}

// findBytes is find for the ids of two bytes.
func (p *pairTable) findBytes(a, b byte) uint64 {
	if row := p.bytes[a]; row != nil {
		return row[b]
	}
	return noPair
}

// find returns the value of a pair, noPair when it has no merge. (A free slot
// whose zero key equals pair 0,0 has the value noPair as well.)
func (p *pairTable) find(left, right int32) uint64 { return p.slot(pairKey(left, right)).value }

// memo remembers one yes-or-no answer per token in two bits: 0 not known, 1
// no, 3 yes. Racing writers write the same answer.
type memo struct{ words []atomic.Uint32 }

func newMemo(tokens int) memo { return memo{make([]atomic.Uint32, tokens/16+1)} }

func (m memo) get(id int32) (yes, known bool) {
	bits := m.words[id/16].Load() >> (id % 16 * 2) & 3
	return bits == 3, bits != 0
}

func (m memo) set(id int32, yes bool) {
	bits := uint32(1)
	if yes {
		bits = 3
	}
	m.words[id/16].Or(bits << (id % 16 * 2))
}
