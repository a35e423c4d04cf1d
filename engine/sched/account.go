package sched

// What a token adds to its account's counter. A decoded token has a row of its own in every
// step; prefilled ones share one read of the weights.
const (
	prefillCost = 1
	decodeCost  = 2
)

// idleAccountsMax bounds the accounts that are remembered without sequences.
const idleAccountsMax = 1024

// account is the fairness state of one account. It exists while a sequence of
// its own does, and after that, where it was served more than those that wait, until
// more than idleAccountsMax have been idle since.
type account struct {
	name    string
	counter int64   // service received, in costs; lifted when it was away
	lines   []*line // one for each priority of its sequences, at most 256
	waiting int     // sequences in them
	live    int     // sequences between Add and Finish
	running int
	skipped int // plans in a row with prefills of its own and no piece of one
	idle    link[account]

	passedOver bool // scratch of planPrefills
}

// idleList is of the accounts without sequences, by when the last one left.
func idleList() list[account] {
	return list[account]{at: func(a *account) *link[account] { return &a.idle }}
}

// join returns the account of a new sequence.
func (s *Scheduler) join(name string) *account {
	a := s.accounts[name]
	if a == nil {
		a = &account{name: name}
		s.accounts[name] = a
	}
	s.idle.remove(a)
	a.live++
	return a
}

// leave counts a sequence out. An account without sequences is remembered
// only while it has had more than those that wait would be lifted to anyway.
func (s *Scheduler) leave(a *account) {
	a.live--
	if a.live > 0 {
		return
	}
	if a.counter <= s.floor() {
		delete(s.accounts, a.name)
		return
	}
	if len(a.lines) > 1 { // all are empty; one is enough to be remembered
		a.lines = a.lines[:1:1]
	}
	s.idle.pushBack(a)
	if s.idle.len > idleAccountsMax {
		oldest := s.idle.head
		s.idle.remove(oldest)
		delete(s.accounts, oldest.name)
	}
}
