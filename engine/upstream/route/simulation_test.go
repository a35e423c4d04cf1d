package route

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The simulation: replicas with true caches, conversations of Zipf popularity whose prompts
// share the system text of their group and grow turn by turn, arrivals of a Poisson process,
// and answers that take time. A router decides with what it remembers; the oracle decides by
// the same rule with what is really cached.
const (
	simReplicas      = 64
	simConversations = 10_000
	simGroups        = 200
	simRequests      = 40_000
	simInFlight      = 8.0 // mean on a replica
	simTurnsMax      = 20
	simCached        = 600 // prefixes that a replica's cache really holds
)

// world is one run: the same seed gives the same requests, whoever decides.
type world struct {
	random   *rand.Rand
	set      *Set
	now      time.Time
	caches   []prefixes // the truth
	names    []string
	turns    []int
	ends     ends
	inFlight []int
	area     []float64 // in-flight times seconds
	changed  []time.Time
	hits     int
	asked    int
}

type end struct {
	at      time.Time
	replica int
}

type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_000_000, 0), turns: make([]int, simConversations),
		set: New(Config{PrefixesMax: 4096, PrefixAge: 120 * time.Second, InFlightMax: 1000, Seed: seed})}
	w.inFlight, w.area, w.changed = make([]int, simReplicas), make([]float64, simReplicas), make([]time.Time, simReplicas)
	for i := range simReplicas {
		w.names = append(w.names, fmt.Sprintf("replica-%02d", i))
		w.set.Add(w.names[i])
		w.caches = append(w.caches, newPrefixes(simCached, time.Hour))
		w.changed[i] = w.now
	}
	return w
}

// key is the next turn of a conversation.
func (w *world) key(conversation int) Key {
	turn := w.turns[conversation]
	w.turns[conversation] = (turn + 1) % simTurnsMax // then it begins anew, with another text
	k := Key{Conversation: Hash("conversation", fmt.Sprint(conversation))}
	k.Prefixes = append(k.Prefixes, Hash("group", fmt.Sprint(conversation%simGroups)))
	for t := range turn + 1 {
		k.Prefixes = append(k.Prefixes, Hash("turn", fmt.Sprint(conversation), fmt.Sprint(t)))
	}
	return k
}

// move adds to a replica's requests, whose time so far is counted.
func (w *world) move(i, by int) {
	w.area[i] += float64(w.inFlight[i]) * w.now.Sub(w.changed[i]).Seconds()
	w.inFlight[i] += by
	w.changed[i] = w.now
}

func (w *world) index(id string) int {
	var i int
	_, _ = fmt.Sscanf(id, "replica-%d", &i)
	return i
}

// run sends requests; choose decides.
func (w *world) run(t *testing.T, choose func(Key) string) {
	zipf := rand.NewZipf(w.random, 1.05, 10, simConversations-1)
	rate := simReplicas * simInFlight // per second, as an answer takes one in the mean
	for range simRequests {
		w.now = w.now.Add(time.Duration(w.random.ExpFloat64() / rate * float64(time.Second)))
		for len(w.ends) > 0 && w.ends[0].at.Before(w.now) {
			e := heap.Pop(&w.ends).(end)
			w.move(e.replica, -1)
			w.set.Release(w.names[e.replica])
		}
		key := w.key(int(zipf.Uint64()))
		id := choose(key)
		if id == "" {
			t.Fatal("no replica was chosen")
		}
		i := w.index(id)
		w.move(i, 1)
		w.hits += w.caches[i].longest(key.Prefixes, w.now)
		w.asked += len(key.Prefixes)
		w.caches[i].add(key.Prefixes, w.now)
		took := time.Duration(w.random.ExpFloat64() * float64(time.Second))
		heap.Push(&w.ends, end{w.now.Add(took), i})
	}
}

// maxOverMean compares the mean loads of the replicas.
func (w *world) maxOverMean() float64 {
	total, most := 0.0, 0.0
	for i := range w.area {
		w.move(i, 0)
		total, most = total+w.area[i], max(most, w.area[i])
	}
	return most / (total / float64(len(w.area)))
}

// TestSimulation holds the choice to its gates: at least 90 % of the prefix hits of an
// oracle that sees all caches, no replica more than 1.3 times as loaded as the mean.
func TestSimulation(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		w := newWorld(seed)
		w.run(t, func(k Key) string {
			c, _ := w.set.Choose(w.now, k, nil)
			return c.ID
		})
		oracle := newWorld(seed)
		oracle.run(t, func(k Key) string {
			for i, r := range oracle.set.replicas { // it sees what is really cached
				r.prefixes = oracle.caches[i]
			}
			up := oracle.set.candidates(oracle.now, nil)
			best, _ := byPrefix(up, k, oracle.now)
			if best == nil {
				best = byRendezvous(up, k.Conversation)
			}
			best.inFlight++
			return best.id
		})
		share, skew := float64(w.hits)/float64(oracle.hits), w.maxOverMean()
		t.Logf("seed %d: hits %.1f %% of what was asked, %.1f %% of the oracle's; largest load %.2f of the mean",
			seed, 100*float64(w.hits)/float64(w.asked), 100*share, skew)
		if share < 0.9 || math.IsNaN(share) {
			t.Errorf("seed %d: %.3f of the oracle's hits, want 0.9", seed, share)
		}
		if skew > 1.3 {
			t.Errorf("seed %d: the fullest replica has %.2f of the mean load, want at most 1.3", seed, skew)
		}
	}
}

// TestDeathMovesFew: when a replica dies, few conversations move but its own.
func TestDeathMovesFew(t *testing.T) {
	s := New(Config{PrefixesMax: 4, PrefixAge: time.Minute, InFlightMax: 1 << 30})
	for i := range simReplicas {
		s.Add(fmt.Sprintf("replica-%02d", i))
	}
	now := time.Unix(1_000_000, 0)
	place := func() []string {
		at := make([]string, simConversations)
		for c := range at {
			chosen, _ := s.Choose(now, Key{Conversation: Hash(fmt.Sprint(c))}, nil)
			at[c] = chosen.ID
			s.Release(chosen.ID)
		}
		return at
	}
	before := place()
	s.Remove("replica-17")
	moved, own := 0, 0
	for c, id := range place() {
		if before[c] == "replica-17" {
			own++
		}
		if id != before[c] {
			moved++
		}
	}
	if own == 0 || float64(own) > 1.5*simConversations/simReplicas {
		t.Errorf("the dead replica had %d of %d conversations", own, simConversations)
	}
	if limit := own + simConversations*5/100; moved > limit {
		t.Errorf("%d conversations moved, want at most %d", moved, limit)
	}
}

// longHits is the share of turns that go where the turn before went: of conversations of some 130 KB that share their beginning,
// each of which goes on once a minute, on four replicas with some load.
func longHits(t *testing.T, conversations, remembered int) float64 {
	t.Helper()
	const replicas, shared, asked, turns, running = 4, 32, 256, 8, 40
	s := New(Config{PrefixesMax: remembered, PrefixAge: 2 * time.Minute, InFlightMax: 256})
	for i := range replicas {
		s.Add(name(i))
	}
	random, now := rand.New(rand.NewPCG(1, 2)), base
	chains, at, inFlight := make([][]uint64, conversations), make([]string, conversations), []string(nil)
	grow := func(c, n int) {
		for range n {
			chains[c] = append(chains[c], Hash(fmt.Sprint(c), fmt.Sprint(len(chains[c]))))
		}
	}
	for c := range chains {
		for i := range shared {
			chains[c] = append(chains[c], Hash("shared", fmt.Sprint(i)))
		}
		grow(c, asked-shared)
	}
	hits := 0
	for turn := range turns {
		for _, c := range random.Perm(conversations) {
			now = now.Add(time.Minute / time.Duration(conversations))
			if len(inFlight) == running {
				i := random.IntN(running)
				s.Release(inFlight[i])
				inFlight = append(inFlight[:i], inFlight[i+1:]...)
			}
			session := Hash(fmt.Sprint(c))
			key := Key{Conversation: session, Prefixes: append([]uint64(nil), chains[c][:shared]...)}
			key.Prefixes = append(append(key.Prefixes, chains[c][len(chains[c])-asked+shared:]...), session)
			id := choose(t, s, now, key).ID
			inFlight = append(inFlight, id)
			if turn > 0 && at[c] == id {
				hits++
			}
			at[c] = id
			grow(c, 2+random.IntN(4))
		}
	}
	return float64(hits) / float64(conversations*(turns-1))
}

// TestLongConversations: what is remembered of a replica is enough for many long conversations: their turns find their caches as
// often as if all were remembered.
func TestLongConversations(t *testing.T) {
	for _, conversations := range []int{30, 300, 900} {
		all, share := longHits(t, conversations, 1<<30), longHits(t, conversations, 16384)
		t.Logf("of %d conversations %.1f %% of the turns find their caches, where all is remembered %.1f %%", conversations, 100*share, 100*all)
		if all < 0.8 || share < all-0.01 {
			t.Errorf("of %d conversations %.3f of the turns go where the one before went, where all is remembered %.3f", conversations, share, all)
		}
	}
}
