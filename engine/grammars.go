package engine

import (
	"container/list"
	"crypto/sha256"
	"fmt"
	"sync"

	"corenode/engine/grammar"
)

// grammarsMax bounds what is kept of a model's grammars, as grammar.Grammar.Size counts.
const grammarsMax = 400_000

// grammars are those that were used last: an agent brings the same tools with each of its
// requests, and takes milliseconds to compile them. Each account has its own: that a form
// is known another one could tell by the time. The zero value is ready.
type grammars struct {
	mu     sync.Mutex
	known  map[[sha256.Size]byte]*list.Element // Guarded by mu
	recent list.List                           // of *kept, the one used last in front. Guarded by mu
	size   int                                 // of all. Guarded by mu
}

type kept struct {
	key     [sha256.Size]byte
	grammar *grammar.Grammar
}

// compile is the grammar of an account's form. What cannot be compiled is not remembered.
func (k *grammars) compile(account string, f grammar.Form) (*grammar.Grammar, error) {
	key := formKey(account, f)
	if g := k.find(key); g != nil {
		return g, nil
	}
	g, err := grammar.Compile(f)
	if err != nil {
		return nil, err
	}
	k.put(&kept{key, g})
	return g, nil
}

// formKey tells accounts apart, and forms by all that they say.
func formKey(account string, f grammar.Form) (key [sha256.Size]byte) {
	h := sha256.New()
	write := func(s string) { fmt.Fprintf(h, "%d %s", len(s), s) }
	write(account)
	fmt.Fprint(h, f.Thinking, f.Free, f.Marked, f.SingleCall, f.JSONCalls, f.KeyCalls, f.Capital, f.Apart, f.Text != nil, f.ThinkOpen != "")
	write(string(f.Text))
	for _, t := range f.Calls {
		write(t.Name)
		write(string(t.Schema))
	}
	h.Sum(key[:0])
	return key
}

func (k *grammars) find(key [sha256.Size]byte) *grammar.Grammar {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, known := k.known[key]
	if !known {
		return nil
	}
	k.recent.MoveToFront(at)
	return at.Value.(*kept).grammar
}

// put keeps a grammar, and those that were used last as far as there is room.
func (k *grammars) put(one *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[[sha256.Size]byte]*list.Element{}
	}
	if k.known[one.key] != nil { // another request was as fast
		return
	}
	k.known[one.key] = k.recent.PushFront(one)
	for k.size += one.grammar.Size(); k.size > grammarsMax; {
		last := k.recent.Remove(k.recent.Back()).(*kept)
		k.size -= last.grammar.Size()
		delete(k.known, last.key)
	}
}

// heldMax bounds the grammars of all requests that a step loop has, as grammar.Grammar.Size counts: 400 MB.
const heldMax = 4_000_000

// heldGrammars are those of the requests that a step loop has, each counted once, however many use it:
// a queue of other schemas takes more memory than its prompts do. Owned by the step loop.
type heldGrammars struct {
	max, size int
	uses      map[*grammar.Grammar]int
}

// over says whether there is no room for those of these that are not held yet.
func (h *heldGrammars) over(all []*grammar.Grammar) bool {
	more := 0
	for _, g := range all {
		if h.uses[g] == 0 {
			more += g.Size()
		}
	}
	return more > 0 && h.size+more > h.max
}

func (h *heldGrammars) add(all []*grammar.Grammar) {
	for _, g := range all {
		if h.uses[g]++; h.uses[g] == 1 {
			h.size += g.Size()
		}
	}
}

func (h *heldGrammars) drop(all []*grammar.Grammar) {
	for _, g := range all {
		if h.uses[g]--; h.uses[g] == 0 {
			h.size -= g.Size()
			delete(h.uses, g)
		}
	}
}
