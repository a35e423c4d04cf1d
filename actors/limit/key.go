package limit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// keyState is what is taken of one key's budget.
type keyState struct {
	budget  abi.Nano // 0 = none
	charged abi.Nano // in the state's month, of a key with a budget
	held    abi.Nano // by requests with the key; of a key without a budget all that they may cost
	short   abi.Nano // what those are short of
}

// left is what a new request can have of the budget.
func (k keyState) left() abi.Nano { return k.budget - k.charged - k.held }

// keyHeld is what a request has of its key's budget, and what it is short of.
type keyHeld struct {
	id          string
	hold, short abi.Nano
}

// heldOf is what a request has that may cost upper; without a key nothing.
func heldOf(id string, hold, upper abi.Nano) keyHeld {
	if id == "" {
		return keyHeld{}
	}
	return keyHeld{id, hold, upper - hold}
}

func (l Live) ofKey() keyHeld { return heldOf(l.KeyID, l.KeyHold, l.Upper) }

// Knows says whether what a request at a time can have of its key's budget and of counters is known: the
// budget is the one that was read, and no clock that was ahead has begun a later month. That forgot what
// was charged in this one, and its counters.
func (s *State) Knows(a Ask, now time.Time) bool {
	if s.keys[a.Key.ID].budget != a.Key.Budget {
		return false
	}
	return a.Key.Budget == 0 && len(a.Takes)+len(a.Needs) == 0 || account.Month(now) >= s.month
}

// loadKeys sets what the ledger knew of the keys with a budget, and the month of that. It may be an earlier one than
// the state's: of a clock that was ahead, or of a load that the end of a month crossed. The next request begins the new month then.
func (s *State) loadKeys(r Loaded) {
	clear(s.keys)
	s.keyShort = 0
	s.month = account.Month(r.At)
	for _, k := range r.Keys {
		s.keys[k.KeyID] = keyState{budget: k.Budget, charged: k.Charged}
	}
}

// countKey notes what is held of a key's budget instead of what was.
func (s *State) countKey(was, is keyHeld) {
	change := func(h keyHeld, sign abi.Nano) {
		if h.id == "" {
			return
		}
		k := s.keys[h.id]
		k.held, k.short = k.held+sign*h.hold, k.short+sign*h.short
		s.keyShort += sign * h.short
		if k == (keyState{}) {
			delete(s.keys, h.id)
		} else {
			s.keys[h.id] = k
		}
	}
	change(is, 1)
	change(was, -1)
}

// BeginMonth begins the month of now, by the clock of who decides: nothing was charged to a key in it.
func (s *State) BeginMonth(now time.Time) {
	month := account.Month(now)
	if month <= s.month {
		return
	}
	s.month = month
	for id, k := range s.keys {
		k.charged = 0
		s.keys[id] = k
	}
	s.topUpKeys()
}

// charge counts a row that is in the ledger against the budget of its key, if it is of the state's month. One of a later
// month is of another clock, which may be ahead: it begins none.
func (s *State) charge(m Settle) {
	if k, ok := s.keys[m.KeyID]; ok && k.budget > 0 && account.Month(m.At) == s.month {
		k.charged -= m.Amount
		s.keys[m.KeyID] = k
	}
}

// topUpKeys gives what is left of budgets to the requests that took less than their upper bound
// of it, in the order in which they came.
func (s *State) topUpKeys() {
	if s.keyShort == 0 {
		return
	}
	var ids []string
	for id, h := range s.open {
		if h.key.short > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(s.open[a].arrival, s.open[b].arrival) })
	for _, id := range ids {
		h := s.open[id]
		more := h.key.short
		if k := s.keys[h.key.id]; k.budget > 0 {
			more = min(more, max(k.left(), 0))
		}
		h.key.hold, h.key.short = h.key.hold+more, h.key.short-more
		s.put(id, h)
	}
}

// budget says what a request that costs at least minimum and at most upper gets of its key's budget.
func (s *State) budget(id string, minimum, upper abi.Nano) (abi.Nano, *abi.Error) {
	k := s.keys[id]
	switch {
	case id == "":
		return 0, nil
	case k.budget == 0:
		return upper, nil
	}
	left := k.left()
	if left < minimum {
		return 0, &abi.Error{Kind: abi.InsufficientBalance, Op: "limit.Reserve",
			Msg: fmt.Sprintf("this key's budget of %s a month (UTC) is reached: %s left, this request needs at least %s",
				dollars(k.budget), dollars(left), dollars(minimum))}
	}
	return max(min(upper, left), 0), nil
}

// keyTokens says what a request takes from the bucket of its key.
func (s *State) keyTokens(a Ask) (int64, *abi.Error) {
	b := s.buckets[a.Key.ID] // where none is kept there is no limit
	need, take := int64(1), int64(0)
	if !a.Free {
		need = a.Tokens(b.Capacity)
		take = need
	}
	if !b.has(need) {
		return 0, shortOfTokens("key", b, need)
	}
	return take, nil
}

// refillKey brings the bucket of a key to now and to the limit that the key has. One without a
// limit has no bucket.
func (s *State) refillKey(k account.LimitedKey, now time.Time) {
	b, ok := s.buckets[k.ID]
	switch {
	case k.ID == "" || k.TokensPerMinute <= 0:
		delete(s.buckets, k.ID)
		return
	case !ok:
		b = NewBucket(k.TokensPerMinute, now)
	case b.Capacity != min(k.TokensPerMinute, capacityMax):
		b.Refill(now)
		b.Resize(k.TokensPerMinute, now)
	default:
		b.Refill(now)
	}
	s.buckets[k.ID] = b
}

// addKey puts tokens into the bucket of a key, if there is one.
func (s *State) addKey(id string, tokens int64) {
	if b, ok := s.buckets[id]; ok {
		b.add(tokens)
		s.buckets[id] = b
	}
}

// leaveKey corrects the bucket of a request's key. One that is not there was full.
func (s *State) leaveKey(m Leave, now time.Time) {
	b, ok := s.buckets[m.Key.ID]
	if !ok {
		if m.Key.ID == "" || m.Key.TokensPerMinute <= 0 {
			return
		}
		b = NewBucket(m.Key.TokensPerMinute, now)
	}
	b.Refill(now)
	b.add(m.KeyTaken - m.Used)
	s.buckets[m.Key.ID] = b
}

// keysFull forgets the buckets that are full and says whether all were.
func (s *State) keysFull(now time.Time) bool {
	for id, b := range s.buckets {
		if b.Refill(now); b.Full() {
			delete(s.buckets, id)
		}
	}
	return len(s.buckets) == 0
}

// Limits is what the headers of an answer to a key say.
func (s *State) Limits(k account.LimitedKey, now time.Time) account.Limits {
	b, ok := s.buckets[k.ID]
	if !ok || k.TokensPerMinute <= 0 {
		b = NewBucket(k.TokensPerMinute, now)
	}
	return Narrow(s.Counters().Limits(now), b, now)
}

// FullLimits are those of an account and a key that have used nothing.
func FullLimits(a account.Account, k account.LimitedKey, now time.Time) account.Limits {
	return Narrow(NewCounters(a, now).Limits(now), NewBucket(k.TokensPerMinute, now), now)
}

// Narrow makes limits those of a key's bucket, where fewer tokens remain in it than in the account's.
func Narrow(l account.Limits, b Bucket, now time.Time) account.Limits {
	if b.Capacity == 0 {
		return l
	}
	b.Refill(now)
	if l.TokensLimit == 0 || b.Remaining() < l.TokensRemaining {
		l.TokensLimit, l.TokensRemaining, l.TokensReset = b.Capacity, b.Remaining(), now.Add(b.Wait(b.Capacity))
	}
	return l
}
