package main

import (
	"corenode/actors/account"
	"corenode/actors/tree"
	"corenode/node/server"
	"corenode/wasm/abi"
)

// backend shows the actor tree to the front end. A node that has lost its place among others, for they count
// it out when they do not hear of it, admits nothing; what another one admitted it computes.
type backend struct {
	*tree.Tree
	database *database // nil without others
}

// admits says why nothing is admitted now.
func (b backend) admits() *abi.Error {
	if b.database == nil {
		return nil
	}
	return b.database.Admits()
}

// Enter implements server.Backend.
func (b backend) Enter(a account.Account, key account.LimitedKey) (release func(), limits account.Limits, err error) {
	if err := b.admits(); err != nil {
		return nil, b.Limits(a, key), err
	}
	return b.Tree.Enter(a, key)
}

// Generate implements server.Backend.
func (b backend) Generate(c account.Call) (server.Stream, account.Limits, error) {
	if err := b.admits(); err != nil && !c.Peer.Forwards() {
		return nil, b.Limits(c.Account, c.Key), err
	}
	s, limits, err := b.Tree.Generate(c)
	if err != nil {
		return nil, limits, err // and not a nil *tree.Stream, which is no nil Stream
	}
	return s, limits, nil
}
