package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"corenode/node/store"
	"corenode/node/store/sqlite"
)

// slowProof is a store whose ledger takes until its caller leaves to prove.
type slowProof struct {
	*sqlite.Store
	begun chan struct{}
}

func (s slowProof) VerifyWithin(ctx context.Context) (store.Verification, error) {
	s.begun <- struct{}{}
	<-ctx.Done()
	return store.Verification{}, ctx.Err()
}

// TestOneProofAtATime: it reads all of the ledger. A second call is told of the first one, which ends when its caller leaves.
func TestOneProofAtATime(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	slow := slowProof{s, make(chan struct{})}
	api := New(slow, &fakeNode{}, nil, nil, nil)
	verify := func(ctx context.Context) (status int, answer string) {
		status, _, text := api.Handle(ctx, http.MethodPost, Root+"/ledger/verify", nil, nil)
		return status, string(text)
	}
	for range 2 { // the one that ended is in nobody's way
		caller, leave := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			status, _ := verify(caller)
			ended <- status
		}()
		<-slow.begun
		if status, answer := verify(t.Context()); status != http.StatusConflict || !strings.Contains(answer, "ask again") {
			t.Errorf("a second one: %d %s", status, answer)
		}
		leave()
		if status := <-ended; status != http.StatusInternalServerError {
			t.Errorf("whose caller left: %d", status)
		}
	}
}

// slowCopy is a store whose backup ends when it is told to.
type slowCopy struct {
	*sqlite.Store
	begun, end chan struct{}
}

func (s slowCopy) Backup(string) (missing []string, err error) {
	s.begun <- struct{}{}
	<-s.end
	return nil, nil
}

// TestOneBackupAtATime: each looks for room before it begins, so a second one would take what the first one counts on.
func TestOneBackupAtATime(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	slow := slowCopy{s, make(chan struct{}), make(chan struct{})}
	api := New(slow, &fakeNode{}, nil, nil, nil)
	backup := func() (status int, answer string) {
		status, _, text := api.Handle(t.Context(), http.MethodPost, Root+"/backup", nil, []byte(`{"path":"/copy.db"}`))
		return status, string(text)
	}
	for range 2 { // the one that ended is in nobody's way
		ended := make(chan int)
		go func() {
			status, _ := backup()
			ended <- status
		}()
		<-slow.begun
		second := make(chan struct{})
		go func() {
			defer close(second)
			if status, answer := backup(); status != http.StatusConflict || !strings.Contains(answer, "ask again") {
				t.Errorf("a second one: %d %s", status, answer)
			}
		}()
		select {
		case <-second:
		case <-slow.begun:
			t.Error("a second one began")
			slow.end <- struct{}{}
			<-second
		}
		slow.end <- struct{}{}
		if status := <-ended; status != http.StatusCreated {
			t.Errorf("the first one: %d", status)
		}
	}
}
