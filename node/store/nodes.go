package store

import (
	"context"
	"errors"
	"time"

	"corenode/actors/limit"
)

var (
	// ErrFenced means that the fence of this node is gone: the others count it out, and nothing
	// that it was lent is its own any more. It registers again.
	ErrFenced = limit.ErrFenced
	// ErrNodeTaken means that another process runs as this node: its data folder is a copy.
	ErrNodeTaken = errors.New("another process runs as this node: was its data folder copied, node.id with it?")
)

// NodeState is where a node is in its life.
type NodeState string

// The states. A node that is fenced or gone admits nothing, and neither does one that starts.
const (
	NodeStarting NodeState = "starting"
	NodeUp       NodeState = "up"
	NodeDraining NodeState = "draining"
	NodeFenced   NodeState = "fenced" // it did not renew, and the others counted it out
	NodeGone     NodeState = "gone"   // it stopped
)

// Position is how far a node has followed the changes, in the store's own form. It is not for
// comparing. Empty is not at all.
type Position string

// Change says that something is not what it was: who keeps a copy of it reads it again.
type Change struct {
	Topic   string // TopicAccount, TopicAll or another
	Subject string // such as the id of an account
}

const (
	// TopicAccount is an account, its keys or its money.
	TopicAccount = "account"
	// TopicCommons is what all nodes have in common. Nobody writes it: nodes look for themselves, and once more for TopicAll.
	TopicCommons = "commons"
	// TopicAll stands for changes that were not read for so long that the store has forgotten
	// which they were: all that is kept is read again.
	TopicAll = "all"
)

// Presence is what a node says of itself, when it registers and with each renewal.
type Presence struct {
	Home    string // its data folder among those of all machines
	Version string
	Address string // where its public listener is reached; empty where nobody but a proxy knows
	State   NodeState
	Models  []string // the ids it serves, in order
	// ModelsDigest and PricesDigest are the same on nodes that serve the same models at the same prices.
	ModelsDigest, PricesDigest string
	Known                      Position // the changes that it has applied
}

// Node is one of the nodes that share a store.
type Node struct {
	ID string
	Presence
	Fence   int64         // rises each time the node registers or is fenced
	Live    bool          // it renewed within the lease: it may admit
	Started time.Time     // by the store's clock, as all that is compared between nodes
	Silent  time.Duration // since its last renewal; negative when it said that it stops
	Drain   bool          // an operator asked it to drain
	Unread  int64         // changes that it has not applied
}

// Told is what a node learns with its renewal.
type Told struct {
	Drain bool     // an operator asked this node to drain
	Live  []Node   // the live nodes, by id, this one among them
	Lost  []string // the nodes that it counted out
}

// Nodes is what a store that nodes share knows of them. A node is live while it renews within
// the lease; its fence is the number under which it is lent something.
type Nodes interface {
	// Lease is how long a node counts as live after its last renewal.
	Lease() time.Duration
	// Register begins a new incarnation of this node with a new fence. ErrNodeTaken says that
	// a node of this id may still run elsewhere.
	Register(context.Context, Presence) error
	// Renew says that this node still runs, or gives ErrFenced. With fence it counts those out
	// that did not renew within the lease, and says which.
	Renew(ctx context.Context, p Presence, fence bool) (Told, error)
	// Position is how far changes have come. Whoever reads what they are about after it, and
	// follows them from it, misses nothing.
	Position(context.Context) (Position, error)
	// Changes returns what was committed since a position, each once, and the position behind it.
	Changes(ctx context.Context, since Position) ([]Change, Position, error)
	// Listen calls heard soon after a change, until ctx ends. It only hurries who polls: it may
	// miss one, and call without any.
	Listen(ctx context.Context, heard func())
	// Nodes returns a page of the nodes by id, above after.
	Nodes(after string, limit int) ([]Node, error)
	// AskDrain tells a live node to drain with its next renewal, or gives ErrNotFound.
	AskDrain(id string) error
	// Unaware names the live nodes that have not applied all changes of a subject.
	Unaware(ctx context.Context, topic, subject string) ([]string, error)
}

// NodesMax is the most nodes of one page.
const NodesMax = 1000
