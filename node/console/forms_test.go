package console

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestAFormThatComesTwiceIsActedOnOnce: a double click makes one key, whose secret the page shows that stays.
func TestAFormThatComesTwiceIsActedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s session
		did := 0
		slow := func() (said, to string, err error) {
			did++
			time.Sleep(time.Second)
			return "the key", "/there", nil
		}
		go s.act("form", slow)
		synctest.Wait()
		for range 2 { // while the first is at work, and when the page that it led to was never read
			if to, err := s.act("form", slow); to != "/there" || err != nil || s.take() != "the key" || did != 1 {
				t.Errorf("a form that came again: %q, %v, done %d times", to, err, did)
			}
		}
		broken := errors.New("away")
		fails := func() (said, to string, err error) { did++; return "", "", broken }
		if _, err := s.act("other", fails); err != broken {
			t.Errorf("a form that failed: %v", err)
		}
		if to, err := s.act("other", slow); to != "/there" || err != nil || did != 3 {
			t.Errorf("a form that failed and came again: %q, %v, done %d times", to, err, did)
		}
		for range 2 {
			_, _ = s.act("", slow) // a form without a name is another one each time
		}
		if did != 5 {
			t.Errorf("forms without a name: done %d times in all", did)
		}
		for i := range 2 * sentMax {
			_, _ = s.act(fmt.Sprint(i), slow) // it cannot fail
		}
		if len(s.sent) != sentMax {
			t.Errorf("%d forms are kept", len(s.sent))
		}
	})
}
