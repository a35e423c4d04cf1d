package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
)

// follower reads changes as a node does.
type follower struct {
	s  *Store
	at store.Position
}

func newFollower(t *testing.T, s *Store) *follower {
	t.Helper()
	p, err := s.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &follower{s, p}
}

// want holds the next read to some subjects, in any order.
func (f *follower) want(t *testing.T, subjects ...string) {
	t.Helper()
	changes, behind, err := f.s.Changes(t.Context(), f.at)
	if err != nil {
		t.Fatal(err)
	}
	f.at = behind
	var got []string
	for _, c := range changes {
		got = append(got, c.Subject)
	}
	slices.Sort(got)
	slices.Sort(subjects)
	if !slices.Equal(got, subjects) {
		t.Errorf("changed are %v, want %v", got, subjects)
	}
}

// TestChangesAreFollowedOnceEach: whatever changes an account, its keys or its money says so, each
// change comes once, and one that commits late comes although younger ones were read.
func TestChangesAreFollowedOnceEach(t *testing.T) {
	url := postgrestest.URL(t)
	s := joined(t, url, "node_a")
	f := newFollower(t, joined(t, url, "node_b"))
	a := storetest.MustCreate(t, s, "a", 5)
	f.want(t, a.ID)
	f.want(t)
	key, _, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	f.want(t, a.ID)
	for what, do := range map[string]func() error{
		"the account":  func() error { _, err := s.UpdateAccount(a.ID, func(*account.Account) {}); return err },
		"a key":        func() error { _, err := s.UpdateKey(key.ID, func(l *account.KeyLimits) { l.Budget = 5 }); return err },
		"a revocation": func() error { _, err := s.RevokeKey(key.ID); return err },
		"money":        func() error { _, err := s.TopUp(a.ID, 5, "", ""); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(what, err)
		}
		t.Run(what, func(t *testing.T) { f.want(t, a.ID) })
	}
	begin := func(subject string) pgx.Tx {
		tx, err := s.pool.Begin(t.Context())
		if err == nil {
			err = change(t.Context(), tx, subject)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback(context.Background()) })
		return tx
	}
	commit := func(tx pgx.Tx) {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	late, early, never := begin("late"), begin("early"), begin("never")
	commit(early)
	f.want(t, "early")
	commit(late)
	f.want(t, "late")
	if err := never.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want(t)
}

// TestForgottenChangesAreAll: who did not follow for so long that changes were forgotten reads
// everything, and who did follow is not bothered.
func TestForgottenChangesAreAll(t *testing.T) {
	s := joined(t, postgrestest.URL(t), "node_a")
	follows, away := newFollower(t, s), newFollower(t, s)
	a := storetest.MustCreate(t, s, "a", 0)
	follows.want(t, a.ID)
	if err := s.Exec(`UPDATE changes SET time = now() - interval '2 hours'`); err != nil {
		t.Fatal(err)
	}
	b := storetest.MustCreate(t, s, "b", 0)
	follows.want(t, b.ID)
	changes, _, err := s.Changes(t.Context(), away.at)
	if err != nil || !slices.Contains(changes, store.Change{Topic: store.TopicAll}) {
		t.Errorf("%v, %v: want all", changes, err)
	}
	if n, err := s.count(`SELECT count(*) FROM changes`); err != nil || n != 2 {
		t.Errorf("%d rows are left, %v", n, err)
	}
}

// TestUnawareNodesAreNamed: a live node that has not applied a change is unaware until it says that
// it did, or was silent for the lease.
func TestUnawareNodesAreNamed(t *testing.T) {
	url := postgrestest.URL(t)
	s, other := joined(t, url, "node_a"), joined(t, url, "node_b")
	want := func(subject string, ids ...string) {
		t.Helper()
		if got, err := s.Unaware(t.Context(), store.TopicAccount, subject); err != nil || !slices.Equal(got, ids) {
			t.Errorf("unaware are %v, %v, want %v", got, err, ids)
		}
	}
	say := func(n *Store, known store.Position) {
		t.Helper()
		p := at(n.node)
		p.Known = known
		if _, err := n.Renew(t.Context(), p, false); err != nil {
			t.Fatal(err)
		}
	}
	want("nothing", "node_a", "node_b") // neither has said anything
	before := newFollower(t, s).at
	say(s, before)
	say(other, before)
	want("nothing")
	a := storetest.MustCreate(t, s, "a", 0)
	want(a.ID, "node_a", "node_b")
	say(s, newFollower(t, s).at)
	want(a.ID, "node_b")
	if page, err := s.Nodes("", 10); err != nil || page[0].Unread != 0 || page[1].Unread != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	silence(t, s, "node_b", "11 seconds")
	want(a.ID)
}

// TestAnotherServerIsReadAnew: what a node followed on a server that another one has replaced may be gone, and the numbers of its
// transactions be those of other changes. So it reads everything, and knows of no change before.
func TestAnotherServerIsReadAnew(t *testing.T) {
	url := postgrestest.URL(t)
	s, other := joined(t, url, "node_a"), joined(t, url, "node_b")
	f := newFollower(t, other)
	f.want(t)
	f.at = "9000000000:9000000000:@1" // as if it had followed what a failover lost
	for _, n := range []*Store{s, other} {
		p := at(n.node)
		if p.Known = f.at; n == s {
			p.Known = newFollower(t, s).at
		}
		if _, err := n.Renew(t.Context(), p, false); err != nil {
			t.Fatal(err)
		}
	}
	a := storetest.MustCreate(t, s, "a", 0)
	if got, err := s.Unaware(t.Context(), store.TopicAccount, a.ID); err != nil || !slices.Equal(got, []string{"node_a", "node_b"}) {
		t.Errorf("unaware are %v, %v", got, err)
	}
	changes, behind, err := other.Changes(t.Context(), f.at)
	if want := []store.Change{{Topic: store.TopicAll}}; err != nil || !slices.Equal(changes, want) {
		t.Errorf("changes are %v, %v, want %v", changes, err, want)
	}
	f.at = behind
	f.want(t)
	before := f.at
	postgrestest.Crash()
	postgrestest.Recover(t)
	if changes, _, err = other.Changes(t.Context(), before); err != nil { // the first on a connection that is gone
		changes, _, err = other.Changes(t.Context(), before)
	}
	if err != nil || !slices.Contains(changes, store.Change{Topic: store.TopicAll}) {
		t.Errorf("after another start: %v, %v", changes, err)
	}
}

// TestChangesOfARestoredDump: changes of a server whose transactions were numbered higher are forgotten at a start.
func TestChangesOfARestoredDump(t *testing.T) {
	url := postgrestest.URL(t)
	s := joined(t, url, "node_a")
	a := storetest.MustCreate(t, s, "a", 0)
	if err := s.Exec(`UPDATE changes SET at = '9000000000000'::xid8`); err != nil {
		t.Fatal(err)
	}
	s = joined(t, url, "node_a")
	p := at("node_a")
	p.Known = newFollower(t, s).at
	if _, err := s.Renew(t.Context(), p, false); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.Unaware(t.Context(), store.TopicAccount, a.ID); err != nil || len(ids) != 0 {
		t.Errorf("unaware are %v, %v", ids, err)
	}
}

// TestListenersAreHurried: a change is heard of without asking.
func TestListenersAreHurried(t *testing.T) {
	s := joined(t, postgrestest.URL(t), "node_a")
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		s.Listen(ctx, func() { heard <- struct{}{} })
		close(ended)
	}()
	<-heard // it listens
	storetest.MustCreate(t, s, "a", 0)
	select {
	case <-heard:
	case <-time.After(30 * time.Second):
		t.Error("nothing was heard in 30 s")
	}
	cancel()
	<-ended
}
