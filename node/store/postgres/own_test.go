package postgres

import (
	"testing"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// TestNeedCallsTheOwnGrantBack: what a node has idle of its own grant does not refuse its requests.
func TestNeedCallsTheOwnGrantBack(t *testing.T) {
	c := newCluster(t, 1, account.Account{}, 1000)
	v := c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r", 100, limit.Part{Permits: 9, Tokens: 90, Money: 900})}})[0]
	if v.Grant == nil || v.Grant.Money != 450 {
		t.Fatalf("%+v", v.Grant)
	}
	big := c.ask("big", 800, limit.Part{})
	v = c.commit(0, limit.Batch{Asks: []limit.Proposal{big}})[0]
	if v.Refusal == nil || v.Refusal.Kind != abi.InsufficientBalance || !v.Recalled || !v.Grant.Wanted {
		t.Fatalf("%+v, recalled %v, %+v", v.Refusal, v.Recalled, v.Grant)
	}
	back := limit.Return{AccountID: c.id, Number: v.Grant.Number, Part: limit.Part{Money: 450}}
	v = c.commit(0, limit.Batch{Returns: []limit.Return{back}, Asks: []limit.Proposal{big}})[0]
	if v.Refusal != nil {
		t.Errorf("after the return: %v", v.Refusal)
	}
	c.wantSound()
}

// TestFencedNodeLearnsTheNumbers: a refusal for a lost fence says what the account has all the same, which is
// what policies go by.
func TestFencedNodeLearnsTheNumbers(t *testing.T) {
	c := newCluster(t, 1, account.Account{Concurrency: 7}, 1000)
	if _, err := c.nodes[0].pool.Exec(t.Context(), `UPDATE nodes SET fence = fence + 1`); err != nil {
		t.Fatal(err)
	}
	v := c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r", 1, limit.Part{})}})[0]
	if v.Refusal == nil || v.Grant != nil || v.Counters.Use(c.now).Available != 1000 || v.Limits.RequestsLimit != 7 {
		t.Errorf("%v, %+v, %+v, %+v", v.Refusal, v.Grant, v.Counters.Use(c.now), v.Limits)
	}
}
