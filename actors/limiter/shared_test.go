package limiter

import (
	"slices"
	"testing"
	"time"

	"corenode/actors/limit"
)

// TestRecallOfNothingIsAnswered: the store renews no grant that is wanted, until it hears what is idle of it.
func TestRecallOfNothingIsAnswered(t *testing.T) {
	var told []limit.Return
	cell := &Cell{lent: lent{grant: limit.Grant{Number: 3, Part: limit.Part{Permits: 2}, AnyTokens: true, AnyMoney: true},
		taken: limit.Part{Permits: 2}, returned: limit.Part{Permits: 1}, until: time.Now().Add(time.Hour)}}
	l := NewShared("a", cell, SharedDeps{Return: func(r limit.Return) { told = append(told, r) }, Counts: &Counts{}})
	l.Receive(nil, Recall{})
	l.Receive(nil, Recall{}) // it does not believe in the grant any more
	want := []limit.Return{{AccountID: "a", Number: 3, Part: limit.Part{Permits: 1}}}
	if !slices.Equal(told, want) {
		t.Errorf("the store is told %+v, want %+v", told, want)
	}
}
