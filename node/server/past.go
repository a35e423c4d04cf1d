package server

import (
	"sync"
	"time"

	"corenode/actors/account"
)

// Past is what is kept of a request that ended: what its log line says, and no body.
type Past struct {
	Seq                             uint64 // rises with every request
	ID, AccountID, KeyID            string
	Route, Model, Translator, Error string
	Stream                          bool
	Status                          int
	Began                           time.Time
	Total, TTFT                     time.Duration
	Receive, Prepare, Settle        time.Duration // phases that Settled does not have; 0 for one that was not reached
	Settled                         account.Settled
}

// pastMax is how many requests are kept; with their texts they take at most 5.5 MiB.
const pastMax = 8_192

// pastChunk is how many are made room for at once.
const pastChunk = 512

// pasts is a ring of requests that ended.
type pasts struct {
	mu     sync.Mutex
	chunks [pastMax / pastChunk]*[pastChunk]Past // Guarded by mu; made when they are first needed
	next   uint64                                // Guarded by mu: Seq of the next one; the first is 1
}

func (p *pasts) at(seq uint64) *Past {
	chunk := &p.chunks[seq%pastMax/pastChunk]
	if *chunk == nil {
		*chunk = new([pastChunk]Past)
	}
	return &(*chunk)[seq%pastChunk]
}

func (p *pasts) add(one Past) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	one.Seq = p.next
	*p.at(p.next) = one
}

// PastQuery selects requests that ended. Empty texts match all.
type PastQuery struct {
	AccountID, Model, ID string
	Before               uint64 // Seq of the last one of the page before; 0 = from the newest
	Limit                int
}

// Past returns a page of the requests that ended, newest first.
func (s *Server) Past(q PastQuery) (page []Past) {
	p := &s.past
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := p.next
	if q.Before > 0 {
		newest = min(newest, q.Before-1)
	}
	for seq := newest; seq > 0 && seq+pastMax > p.next && len(page) < q.Limit; seq-- {
		one := p.at(seq)
		if (q.AccountID == "" || one.AccountID == q.AccountID) && (q.Model == "" || one.Model == q.Model) &&
			(q.ID == "" || one.ID == q.ID) {
			page = append(page, *one)
		}
	}
	return page
}

// remember keeps a request of somebody with a key.
func (x *exchange) remember(total time.Duration) {
	if x.who == nil {
		return
	}
	took := x.phases()
	past := Past{ID: x.id, AccountID: x.who.Account.ID, KeyID: x.who.KeyID, Route: x.name(), Model: x.modelName, Translator: x.translator,
		Stream: x.stream, Status: x.status, Began: x.begun, Total: total, TTFT: x.ttft, Settled: x.settled,
		Receive: took[spanReceive], Prepare: took[spanPrepare], Settle: took[spanSettle]}
	past.Settled.Attempted = nil
	if x.failed {
		past.Error = x.kind.String()
	}
	x.s.past.add(past)
}
