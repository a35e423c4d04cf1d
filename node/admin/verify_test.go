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
