package store

import (
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// Cluster is a store in which many nodes keep one truth: it decides who is admitted. Package
// postgres implements it. A node on SQLite has none, and its limiters decide.
//
// What requests have of their account is in the store: permits, tokens, and holds with the node
// and the fence that they run under. A permit goes back with the settlement, with a release, or when its
// node was fenced for the time that a grant lives. Money goes back with the settlement only.
type Cluster interface {
	Store
	// Commit writes and decides all of a batch in one durable transaction, and answers each of
	// its asks in order. The rows have their IDs then. An error says that nothing is done, or that it is
	// unknown what: the same batch may be given again.
	//
	// Rows are never refused for a fence: what was spent is charged, and a hold under a grant that
	// ended meanwhile is taken all the same. All asks of a node without its fence are refused with
	// limit.ErrFenced. An ask of an account that is not there is refused too, and no error of the batch.
	//
	// A row of an unknown account, and one that breaks a rule, is an error of the whole batch, as in Append.
	Commit(limit.Batch) ([]limit.Verdict, error)
	// Wanted names the accounts of which this node has a grant that another one needs: what is
	// idle of it is to be returned.
	Wanted() ([]string, error)
	// Sweep takes back what has ended: grants that ran out, and permits of fenced nodes. A few hundred of each
	// at a time; more says that there may be some left. Any node may call it at any time; each calls it
	// once a second. Nodes that are out for a week and have nothing open are forgotten.
	Sweep() (more bool, err error)
	// SettleDead settles open holds of nodes that were fenced grace ago, as SettleOpenHolds does those
	// of a node of its own. Of nodes that call it at once each does others, and each hold is settled once.
	// The node, should it come back with a settlement of its own, gets that as an adjustment of the
	// difference: what a client was told is what the ledger says. rate gets the KeptPrices of the node
	// that quoted the request.
	SettleDead(grace time.Duration, rate func(*account.Entry, map[string]abi.Prices) error,
		leftOut func(account.Entry, error)) (settled []account.Entry, err error)
	// Grants are those that nodes have, for operators.
	Grants() ([]NodeGrant, error)
}

// NodeGrant is what a node has of an account without asking.
type NodeGrant struct {
	Node      string `json:"node"`
	AccountID string `json:"account_id"`
	// Left is what no request has taken yet.
	Left   limit.Part `json:"left"`
	Until  time.Time  `json:"until"` // by the database's clock
	Wanted bool       `json:"wanted"`
}
