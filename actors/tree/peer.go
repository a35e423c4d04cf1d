package tree

import (
	"corenode/actors/account"
	"corenode/wasm/abi"
)

// A node that forwards its requests here has admitted, held and will bill them. This one
// only computes: their way leaves out policy, limiter and ledger. Their cached prefixes
// lie in a partition that the other node names for each of its accounts, and their priority is
// what its policy said.

// peer says whether another node forwarded the request.
func (r *request) peer() bool { return r.call.Peer.Forwards() }

// generatePeer hands a forwarded request to its model.
func (t *Tree) generatePeer(c account.Call) (*Stream, *abi.Error) {
	r, err := t.newRequest(c)
	if err == nil {
		err = t.register(r)
	}
	if err != nil {
		return nil, err
	}
	if err := r.forward(); err != nil {
		t.requests.remove(r)
		return nil, err
	}
	if answer := t.await(r); answer.err != nil {
		return nil, r.asked(answer.err)
	}
	r.hold.told <- nil // there is no money to hold
	return &Stream{r: r}, nil
}

// settlePeer ends a forwarded request: what it took is said, and charged by the other node.
func (r *request) settlePeer(u abi.Usage) {
	r.settled.Usage = u
	r.t.requests.remove(r)
	close(r.settledCh)
}
