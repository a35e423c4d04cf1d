package session

import (
	"container/list"
	"sync"
)

// Budget bounds what the sessions of one account pin, in number and in bytes. It
// is shared by all sessions; each call is short.
//
// Invariant: after Set, the sessions it did not name are within both bounds.
type Budget struct {
	sessionsMax int
	bytesMax    int64

	mu       sync.Mutex
	accounts map[string]*accountPins
	where    map[Key]*list.Element
}

// accountPins is the pins of one account, least recently used first.
type accountPins struct {
	account string
	order   *list.List // of *pinned
	bytes   int64
}

type pinned struct {
	key         Key
	bytes       int64
	accountPins *accountPins
}

// NewBudget makes a budget of so many sessions, at least one, and bytes per account.
func NewBudget(sessionsMax int, bytesMax int64) *Budget {
	return &Budget{sessionsMax: sessionsMax, bytesMax: bytesMax,
		accounts: map[string]*accountPins{}, where: map[Key]*list.Element{}}
}

// Set notes that a session has just pinned a conversation of so many bytes, and
// returns the sessions that must give theirs up, the longest unused first. Those
// are forgotten already. k is not among them: of a conversation beyond the bound
// only a part within it is pinned (kv.Pool.Pin).
func (b *Budget) Set(account string, k Key, bytes int64) (evict []Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.place(account, k, min(bytes, b.bytesMax))
	for s.order.Len() > b.sessionsMax || s.bytes > b.bytesMax {
		oldest := s.order.Front().Value.(*pinned).key
		evict = append(evict, oldest)
		b.forget(oldest)
	}
	return evict
}

// place makes k the last used of its account's pins and returns their accountPins.
func (b *Budget) place(account string, k Key, bytes int64) *accountPins {
	b.forget(k) // its session did so when it gave the pin before back; twice in the order it would never leave
	s := b.accounts[account]
	if s == nil {
		s = &accountPins{account: account, order: list.New()}
		b.accounts[account] = s
	}
	b.where[k] = s.order.PushBack(&pinned{k, bytes, s})
	s.bytes += bytes
	return s
}

// Forget notes that a session pins nothing any more.
func (b *Budget) Forget(k Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(k)
}

func (b *Budget) forget(k Key) {
	e := b.where[k]
	if e == nil {
		return
	}
	p := e.Value.(*pinned)
	p.accountPins.order.Remove(e)
	p.accountPins.bytes -= p.bytes
	delete(b.where, k)
	if p.accountPins.order.Len() == 0 {
		delete(b.accounts, p.accountPins.account)
	}
}

// Has says whether a session's pin is counted.
func (b *Budget) Has(k Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.where[k] != nil
}

// Total returns how many sessions pin how many bytes.
func (b *Budget) Total() (sessions int, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.accounts {
		bytes += s.bytes
	}
	return len(b.where), bytes
}
