package account

// Peer is another node that forwarded a request: it has admitted it and charges it. The zero Peer is none, the
// request is a client's.
type Peer struct {
	cluster   bool
	partition string
}

// ClusterPeer is a node of the same database, which forwards a request of an account that both know.
func ClusterPeer() Peer { return Peer{cluster: true} }

// KeyPeer is a node that has a key of this one. It names a partition, which is not empty, for each account of its own.
func KeyPeer(partition string) Peer { return Peer{partition: partition} }

// Forwards says whether there is such a node.
func (p Peer) Forwards() bool { return p != Peer{} }

// CacheAccount is whose caches a request of the account may find: the account's, also where a node of
// the same database forwarded it; of a node with a key, those of its partition of the key's account.
func (a *Account) CacheAccount(p Peer) string {
	if p.partition == "" {
		return a.ID
	}
	return a.ID + "/" + p.partition
}
