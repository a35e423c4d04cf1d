package sqlite

import (
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/storetest"
)

// TestNoRequestWaitsForAnOperator closes one connection for reading and then the other: what operators
// ask for, however long it takes, is none of the connection that requests read by, and the other way round.
func TestNoRequestWaitsForAnOperator(t *testing.T) {
	try := func(who string, reads map[string]func() error) {
		t.Helper()
		for name, read := range reads {
			if err := read(); err != nil {
				t.Errorf("%s, %s: %v", who, name, err)
			}
		}
	}
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 100)
	settled := storetest.MustAppend(t, s, storetest.Settlement(a.ID, "done", -5))[0]
	if err := s.read.close(); err != nil {
		t.Fatal(err)
	}
	try("an operator", map[string]func() error{
		"entries":     func() error { _, err := s.Entries(store.Query{Since: time.Now()}); return err },
		"statement":   func() error { _, _, err := s.Statement(store.StatementQuery{}); return err },
		"request":     func() error { _, err := s.Request("done"); return err },
		"settlement":  func() error { _, err := s.Settlement("done"); return err },
		"provisional": func() error { _, err := s.Provisional(0); return err },
		"refund":      func() error { _, _, err := s.Refund(settled, ""); return err },
		"usage":       func() error { _, err := s.Usage(store.UsageQuery{AccountID: a.ID}); return err },
		"audit":       func() error { _, err := s.Audited("", 0, 1); return err },
		"accounts":    func() error { _, err := s.Holders("", 1); return err },
		"keys":        func() error { _, err := s.Keys(a.ID); return err },
	})

	s = open(t, t.TempDir())
	a = storetest.MustCreate(t, s, "a", 100)
	if err := s.asked.close(); err != nil {
		t.Fatal(err)
	}
	try("a request", map[string]func() error{
		"append":       func() error { return s.Append([]account.Entry{storetest.Hold(a.ID, "r", 1)}) },
		"balance":      func() error { _, _, err := s.Balance(a.ID); return err },
		"counters":     func() error { _, err := s.Counters(a.ID); return err },
		"keys charged": func() error { _, err := s.KeysCharged(a.ID, time.Now()); return err },
		"open holds":   func() error { _, err := s.OpenHolds(); return err },
		"account":      func() error { _, err := s.Account(a.ID); return err },
		"account keys": func() error { _, _, err := s.AccountKeys(a.ID); return err },
	})
}
