package server

import (
	"fmt"
	"testing"
	"unsafe"
)

// TestPast pages back through a ring that has turned, with and without a filter.
func TestPast(t *testing.T) {
	s := &Server{}
	const all = pastMax + 700
	for i := 1; i <= all; i++ {
		s.past.add(Past{ID: fmt.Sprint("req_", i), AccountID: fmt.Sprint("acct_", i%3), Model: "m"})
	}
	for _, accountID := range []string{"", "acct_1"} {
		want := uint64(all)
		q := PastQuery{AccountID: accountID, Model: "m", Limit: 300}
		for page := s.Past(q); len(page) > 0; page = s.Past(q) {
			for _, p := range page {
				for accountID != "" && want%3 != 1 {
					want--
				}
				if p.Seq != want || p.ID != fmt.Sprint("req_", want) {
					t.Fatalf("of %q: %d %s, want %d", accountID, p.Seq, p.ID, want)
				}
				want--
			}
			q.Before = page[len(page)-1].Seq
		}
		if kept := all - int(want); kept < pastMax-3 || kept > pastMax+3 {
			t.Errorf("of %q: %d were there, want %d", accountID, kept, pastMax)
		}
	}
	if one := s.Past(PastQuery{ID: "req_1000", Limit: 5}); len(one) != 1 {
		t.Errorf("by its id: %+v", one)
	}
	const texts = 3 * 64 // ids of the request here and elsewhere; the other texts are shared
	if size := pastMax * (unsafe.Sizeof(Past{}) + texts); size > 11<<19 {
		t.Errorf("the ring takes %d bytes", size)
	}
}
