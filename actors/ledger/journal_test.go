package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestJournalGathersAgain: after a failure each settlement is tried once by itself. What comes behind them shares transactions again.
func TestJournalGathersAgain(t *testing.T) {
	j := journal{rowsMax: 9, batchMax: 9}
	add := func(ids ...string) {
		for _, id := range ids {
			j.add(item{entry: account.Entry{Kind: account.Settlement, RequestID: id}, must: true})
		}
	}
	add("a", "b", "c")
	j.take()
	j.fail()
	add("d", "e")
	var sizes []int
	for batch := j.take(); batch != nil; batch = j.take() {
		sizes = append(sizes, len(batch))
		j.succeed()
	}
	if want := []int{1, 1, 1, 2}; !slices.Equal(sizes, want) {
		t.Errorf("transactions of %v rows, want %v", sizes, want)
	}
}

// TestSettlementsMakeNoRoom: however many settlements have passed, no more rows wait that may be refused than before.
func TestSettlementsMakeNoRoom(t *testing.T) {
	j := journal{rowsMax: 2, batchMax: 9}
	for range 3 {
		for range 5 {
			j.add(item{must: true})
		}
		room := 0
		for j.add(item{}) && room < 9 {
			room++
		}
		if room != 2 {
			t.Fatalf("room for %d rows, want 2", room)
		}
		j.take()
		j.succeed()
	}
}

// unread is a store of which one thing cannot be read.
type unread struct {
	*memory
	broken     string
	held, used int64
}

func (u unread) err(what string) error {
	if u.broken == what {
		return errors.New(what + " cannot be read")
	}
	return nil
}

func (u unread) Balance(string) (abi.Nano, abi.Nano, error) {
	return 7, abi.Nano(u.held), u.err("balance")
}
func (u unread) Counters(string) ([]account.CounterUse, error) {
	return []account.CounterUse{{Held: u.used}}, u.err("counters")
}
func (u unread) KeysCharged(string, time.Time) ([]account.KeyUse, error) { return nil, u.err("keys") }
func (u unread) AccountHolds(string) ([]account.Entry, error) {
	return []account.Entry{{RequestID: "r"}}, u.err("holds")
}

// TestReadIsWholeOrFails: nobody decides on a part of what the store knows of an account. Holds are read where something is held,
// of money or of a counter.
func TestReadIsWholeOrFails(t *testing.T) {
	for _, broken := range []string{"", "balance", "counters", "keys", "holds"} {
		b := NewLog(Config{}, unread{broken: broken, held: 1}).read("a", 3)
		if (b.Err != nil) != (broken != "") || broken == "" && (b.Balance != 7 || b.Seq != 3) {
			t.Errorf("%q cannot be read: %+v", broken, b)
		}
	}
	for _, c := range []unread{{held: 1}, {used: 1}, {}} {
		if b := NewLog(Config{}, c).read("a", 3); (len(b.Holds) > 0) != (c.held+c.used > 0) {
			t.Errorf("with %d of money held and %d of a counter: %+v", c.held, c.used, b.Holds)
		}
	}
}
