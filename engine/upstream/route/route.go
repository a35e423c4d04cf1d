// Package route chooses which of a model's replicas answers a request, as pure code: the
// time and what was observed are told, and a choice is returned.
//
// A replica is up, ejected for a time, or draining; those that are up are candidates. The
// choice goes to the one that knows the longest prefix of the conversation among those
// whose load is within reach of the least loaded one; if none knows any, to the first of
// an order that depends on the conversation and the replicas' names alone (rendezvous
// hashing) whose load is within a bound of the mean. So affinity is never dropped as a
// whole when loads are uneven, a miss never feeds one replica, and nodes with the same
// configuration choose alike without talking to each other.
//
// Load is counted when a replica is chosen, and given back on every way out: counting when
// the answer begins sends all that arrive together to one replica.
//
// A Set is not safe for concurrent use: its owner locks.
package route

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// The numbers of the choice. Their sources are measurements of other routers, and the
// simulation in this package holds the result to its gates.
const (
	// reachMin and reachShare are how far over the least load a replica may be and still be
	// chosen for the prefix it knows.
	reachMin   = 4
	reachShare = 0.25
	// boundFactor is how far over the mean a replica's load may come by a choice without a prefix.
	boundFactor = 1.25
	// waitingWeight is what a request that waits in the replica counts; the figure's weight
	// falls to 0 over waitingAge.
	waitingWeight = 2
	waitingAge    = 5 * time.Second
	// sharedMax is how many beginnings of a prompt are remembered all.
	sharedMax = 32
	// slowStart is the time over which a replica that came back takes its full share.
	slowStart = 10 * time.Second
)

// Config sizes a Set.
type Config struct {
	// PrefixesMax is the most prefixes remembered of each replica; the one used longest ago
	// goes first.
	PrefixesMax int
	// PrefixAge is how long a prefix is remembered without a use.
	PrefixAge time.Duration
	// InFlightMax is the most requests of this node on one replica at once.
	InFlightMax int
	// Seed makes the jitter of ejections.
	Seed uint64
}

// Key is what is known of a request before its replica is chosen.
type Key struct {
	// Conversation orders the replicas for a request that none of them knows.
	Conversation uint64
	// Prefixes are hashes of ever longer beginnings of the prompt, the session's own last.
	Prefixes []uint64
}

// Set holds the replicas of one model.
type Set struct {
	config   Config
	replicas []*replica // by id
	random   *rand.Rand
}

type replica struct {
	id       string
	hash     uint64
	inFlight int
	draining bool
	health   health
	prefixes prefixes
	books    books
	waiting  float64 // in the replica's own queue
	polledAt time.Time
	upSince  time.Time // zero: it takes its full share
}

// New makes an empty set.
func New(c Config) *Set {
	return &Set{config: c, random: rand.New(rand.NewPCG(c.Seed, c.Seed))}
}

// Add takes a replica in. One that is there stays as it is, but does not drain any more.
func (s *Set) Add(id string) {
	i, found := s.find(id)
	if found {
		s.replicas[i].draining = false
		return
	}
	r := &replica{id: id, hash: hashOf(id), prefixes: newPrefixes(s.config.PrefixesMax, s.config.PrefixAge),
		books: newBooks(s.config.PrefixesMax)}
	s.replicas = slices.Insert(s.replicas, i, r)
}

// Drain keeps new requests from a replica, or lets them come again.
func (s *Set) Drain(id string, draining bool) (found bool) {
	r := s.get(id)
	if r != nil {
		r.draining = draining
	}
	return r != nil
}

// Remove forgets a replica. Those that are released later are read over.
func (s *Set) Remove(id string) {
	if i, found := s.find(id); found {
		s.replicas = slices.Delete(s.replicas, i, i+1)
	}
}

func (s *Set) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.replicas, id, func(r *replica, id string) int { return cmp.Compare(r.id, id) })
}

func (s *Set) get(id string) *replica {
	if i, found := s.find(id); found {
		return s.replicas[i]
	}
	return nil
}

// Refusal says why no replica was chosen.
type Refusal uint8

const (
	// Chosen is no refusal.
	Chosen Refusal = iota
	// NoneUp means that no replica that may be tried is up.
	NoneUp
	// AllFull means that those that are up have InFlightMax requests each: wait for a release.
	AllFull
)

// Choice is a replica that was chosen. Its request is counted until Release.
type Choice struct {
	ID string
	// Known is how many of the key's prefixes the replica is thought to have.
	Known int
	// New are those of the key's prefixes that it was not thought to have before: Unlearn takes
	// them back where the prompt was not computed.
	New []uint64
}

// Choose picks a replica that is none of tried, and counts the request on it.
func (s *Set) Choose(now time.Time, key Key, tried []string) (Choice, Refusal) {
	up := s.candidates(now, tried)
	if len(up) == 0 {
		return Choice{}, NoneUp
	}
	up = slices.DeleteFunc(up, func(c candidate) bool { return c.inFlight >= s.config.InFlightMax })
	if len(up) == 0 {
		return Choice{}, AllFull
	}
	best, known := byPrefix(up, key, now)
	had := known
	if best == nil { // it may know some all the same, and be out of reach
		best = byRendezvous(up, key.Conversation)
		had = best.prefixes.longest(key.Prefixes, now)
	}
	best.inFlight++
	best.learn(key.Prefixes, now)
	return Choice{ID: best.id, Known: known, New: key.Prefixes[had:]}, Chosen
}

// Learn tells that a replica has these prefixes though it was not chosen for them.
func (s *Set) Learn(id string, prefixes []uint64, now time.Time) {
	if r := s.get(id); r != nil {
		r.learn(prefixes, now)
	}
}

// learn remembers of a prompt all of its beginning, where prompts that share some part ways; the whole of it and its session,
// by which its next turn is known; and some between. So one prompt takes the place of few others.
func (r *replica) learn(prefixes []uint64, now time.Time) {
	r.prefixes.add(thinned(prefixes, sharedMax, 2), now)
}

// Unlearn takes back that a replica has these prefixes: it was chosen for them, and failed.
func (s *Set) Unlearn(id string, prefixes []uint64) {
	if r := s.get(id); r != nil {
		r.prefixes.remove(prefixes)
	}
}

// Release gives back what Choose counted.
func (s *Set) Release(id string) {
	if r := s.get(id); r != nil {
		r.inFlight = max(0, r.inFlight-1)
	}
}

// InFlight is how many requests are counted on a replica.
func (s *Set) InFlight(id string) int {
	if r := s.get(id); r != nil {
		return r.inFlight
	}
	return 0
}

// Polled tells how many requests wait in a replica's own queue.
func (s *Set) Polled(id string, waiting float64, now time.Time) {
	if r := s.get(id); r != nil && waiting >= 0 && !math.IsInf(waiting, 1) {
		r.waiting, r.polledAt = waiting, now
	}
}

// Forget drops what a replica is thought to have cached: it was restarted.
func (s *Set) Forget(id string) {
	if r := s.get(id); r != nil {
		r.prefixes.clear()
		r.books.clear()
	}
}

// candidate is a replica that may be chosen, with its load at this moment.
type candidate struct {
	*replica
	load float64
}

// candidates are the replicas that are up, are not draining and were not tried.
func (s *Set) candidates(now time.Time, tried []string) []candidate {
	up := make([]candidate, 0, len(s.replicas))
	for _, r := range s.replicas {
		if !r.draining && r.health.up(now) && !slices.Contains(tried, r.id) {
			up = append(up, candidate{r, r.load(now)})
		}
	}
	return up
}

// load is the requests on the replica: those of this node, and those that wait in its own
// queue, by the age of that figure. A replica that came back a moment ago counts as fuller.
func (r *replica) load(now time.Time) float64 {
	load := float64(r.inFlight)
	if age := now.Sub(r.polledAt); age < waitingAge {
		load += waitingWeight * r.waiting * (1 - float64(max(0, age))/float64(waitingAge))
	}
	if up := now.Sub(r.upSince); !r.upSince.IsZero() && up < slowStart {
		load = (load + 1) / max(0.1, float64(up)/float64(slowStart))
	}
	return load
}

// byPrefix finds the candidate that knows most of the key's prefixes among those within reach of the least load; of equals the
// less loaded one, and of those the first in the order of the conversation. nil: none knows any.
func byPrefix(up []candidate, key Key, now time.Time) (best *replica, known int) {
	least := slices.MinFunc(up, func(a, b candidate) int { return cmp.Compare(a.load, b.load) }).load
	reach := least + max(reachMin, reachShare*least)
	var load float64
	for _, c := range up {
		if c.load > reach {
			continue
		}
		n := c.prefixes.longest(key.Prefixes, now)
		if n > known || n > 0 && n == known && cmp.Or(cmp.Compare(c.load, load), inOrder(c.replica, best, key.Conversation)) < 0 {
			best, known, load = c.replica, n, c.load
		}
	}
	return best, known
}

// byRendezvous finds the first candidate, in the order of the conversation, whose load would
// be within a bound of the mean. There always is one: the least loaded.
func byRendezvous(up []candidate, conversation uint64) *replica {
	total := 1.0 // the request itself
	for _, c := range up {
		total += c.load
	}
	bound := math.Ceil(boundFactor * total / float64(len(up)))
	slices.SortFunc(up, func(a, b candidate) int { return inOrder(a.replica, b.replica, conversation) })
	for _, c := range up {
		if c.load+1 <= bound {
			return c.replica
		}
	}
	return slices.MinFunc(up, func(a, b candidate) int { return cmp.Compare(a.load, b.load) }).replica
}

// inOrder compares replicas by the order of a conversation.
func inOrder(a, b *replica, conversation uint64) int {
	return cmp.Or(cmp.Compare(mix(b.hash, conversation), mix(a.hash, conversation)), cmp.Compare(a.id, b.id))
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// mix scores a replica for a conversation, with the finalizer of splitmix64.
func mix(a, b uint64) uint64 {
	x := a ^ b*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Hash is the hash of a key's part: a function of the text alone, the same on every node.
func Hash(parts ...string) uint64 {
	h := fnv.New64a()
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return mix(h.Sum64(), 0)
}
