package tree

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/session"
	"corenode/actors/system"
)

// TestSessionPins: a conversation pins its last turn, no more, and lets go of it
// when it is idle or its account pins too much.
func TestSessionPins(t *testing.T) {
	inBubble(t, Config{AccountSessionsMax: 2}, func(t *testing.T, w *world) {
		a := w.set(plain, 1_000_000)
		turn := func(id string) {
			t.Helper()
			c := w.call(a, "one", 10, 5, true)
			c.SessionID = id
			if _, err := w.play(c); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		pins := func(want int) {
			t.Helper()
			w.models["one"].mu.Lock()
			defer w.models["one"].mu.Unlock()
			if n := len(w.models["one"].pins); n != want || w.models["one"].doubles != 0 {
				t.Errorf("%d pins, want %d; %d released twice", n, want, w.models["one"].doubles)
			}
		}
		turn("a")
		pins(1)
		turn("a")
		pins(1)
		turn("b")
		pins(2)
		turn("c") // a is the longest unused
		pins(2)
		if n := w.tree.Inspect().Sessions; n != 2 {
			t.Errorf("%d sessions", n)
		}
		ref := w.tree.sessions.Live(w.tree.keys.key(account.Call{Account: a, SessionID: "c",
			Request: w.call(a, "one", 0, 0, true).Request}))
		if ref == nil {
			t.Fatal("session c is gone")
		}
		_ = ref.Tell(system.Kill{Reason: "keeps its pin"})
		time.Sleep(time.Second)
		pins(2)
		turn("c")
		pins(2)
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		pins(0)
	})
}

// TestModelsThatPinNothingHaveNoSessions: a conversation with servers elsewhere takes no place of one that has something to keep.
func TestModelsThatPinNothingHaveNoSessions(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 100_000)
		for _, c := range []struct {
			model    string
			sessions int
		}{{"elsewhere", 0}, {"one", 1}, {"elsewhere", 1}} {
			if _, err := w.play(w.call(a, c.model, 20, 5, false)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := w.tree.Inspect().Sessions; n != c.sessions {
				t.Errorf("%d sessions after a request of %s, want %d", n, c.model, c.sessions)
			}
		}
	})
}

func TestSessionKey(t *testing.T) {
	w := &world{}
	seen := map[session.Key]int{}
	base := func() account.Call { return w.call(account.Account{ID: "a"}, "one", 0, 0, true) }
	for i, change := range []func(*account.Call){
		func(*account.Call) {},
		func(c *account.Call) { c.Account.ID = "b" },
		func(c *account.Call) { c.Request.Model = "two" },
		func(c *account.Call) { c.SessionID = "x" },
		func(c *account.Call) { c.Request.Conversation[0] = 1 },
		func(c *account.Call) { c.SessionID = string(make([]byte, 32)) },
		func(c *account.Call) { c.Account.ID, c.Request.Model = "ao", "ne" },
	} {
		c := base()
		change(&c)
		k := newKeyMaker([]byte("secret")).key(c)
		if j, ok := seen[k]; ok {
			t.Errorf("cases %d and %d have the same key", i, j)
		}
		seen[k] = i
		if k == newKeyMaker([]byte("other")).key(c) {
			t.Errorf("case %d does not depend on the secret", i)
		}
	}
}

// TestLongConversationKeepsItsPin: a conversation with more tokens than an account
// may pin keeps the pin of a part that the pool gave it.
func TestLongConversationKeepsItsPin(t *testing.T) {
	inBubble(t, Config{AccountPinnedBytesMax: 500}, func(t *testing.T, w *world) { // 50 tokens
		a := w.set(plain, 100_000)
		for _, c := range []struct {
			prompt      int
			session     string
			pins, bytes int
		}{{20, "short", 1, 250}, {20, "other", 2, 500}, {200, "long", 1, 500}, {300, "long", 1, 500}, {20, "short", 1, 250}} {
			call := w.call(a, "one", c.prompt, 5, false)
			call.SessionID = c.session
			if _, err := w.play(call); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if s := w.tree.Inspect(); s.Pins != c.pins || s.PinnedBytes != int64(c.bytes) {
				t.Errorf("after %d tokens of %s: %d pins of %d bytes, want %d of %d", c.prompt, c.session, s.Pins, s.PinnedBytes, c.pins, c.bytes)
			}
			w.checkPins()
		}
	})
}

// TestConversationsNeverShutOthersOut: an account that opens more conversations
// than the node has sessions for costs no other account a request.
func TestConversationsNeverShutOthersOut(t *testing.T) {
	inBubble(t, Config{SessionsMax: 3}, func(t *testing.T, w *world) {
		noisy, quiet := w.set(plain, 1_000_000), plain
		quiet.ID = "quiet"
		w.set(quiet, 1_000_000)
		for i := range 20 {
			c := w.call(noisy, "one", 10, 5, false)
			c.SessionID = fmt.Sprint("conversation ", i)
			if _, err := w.play(c); err != nil {
				t.Fatalf("conversation %d: %v", i, err)
			}
		}
		if _, err := w.play(w.call(quiet, "one", 10, 5, true)); err != nil {
			t.Errorf("another account: %v", err)
		}
	})
}
